# For tools/package_check.sh: what the package puts where, what it keeps, and what it leaves behind.

check_installed() {
    check_owners
    [ "$(within id -nG blazar | xargs -n 1 | sort | xargs)" = "blazar render video" ] || fail "$(within id blazar)"
    within dpkg-query --show --showformat '${Conffiles}' blazar | grep -q ' /etc/blazar/config.toml ' ||
        fail "the settings file is no conffile"
    [ -L "$ROOT/etc/systemd/system/multi-user.target.wants/blazar.service" ] || fail "the service is not enabled"
    within blazar --version
    within blazar config check /etc/blazar/config.toml
    local said
    said=$(within setpriv --reuid nobody --clear-groups env -i PATH=/usr/bin:/bin HOME=/nonexistent blazar list 2>&1) &&
        fail "anybody reads the configuration"
    [[ $said == *"sudo -u blazar"* ]] || fail "a stranger is told: $said"
}

check_owners() {
    local owners
    owners=$(within stat -c '%n %U:%G:%a' /etc/blazar/config.toml /var/lib/blazar | xargs)
    [ "$owners" = "/etc/blazar/config.toml root:blazar:640 /var/lib/blazar blazar:blazar:750" ] || fail "$owners"
}

check_pages_and_completion() {
    get groff-base zsh
    local page said
    for page in man1/blazar.1 man5/blazar-config.5; do
        said=$(within sh -c "zcat /usr/share/man/$page.gz | groff -man -ww -Kutf8 -Tutf8 2>&1 >/dev/null")
        [ -z "$said" ] || fail "$page: $said"
    done
    said=$(within bash -c '. /usr/share/bash-completion/completions/blazar
        COMP_WORDS=(blazar serv); COMP_CWORD=1; _blazar; echo "${COMPREPLY[*]}"')
    [ "$said" = "serve service" ] || fail "bash offers: $said"
    said=$(within zsh -fc 'autoload -Uz compinit && compinit -u -D && autoload +X _blazar
        print -r -- $_comps[blazar]' 2>&1)
    [ "$said" = _blazar ] || fail "zsh: $said"
    echo "both pages without warnings, both completions loaded"
}

# Everything a person put into the data dir and the configuration, by content.
user_data() {
    (cd "$ROOT" && find var/lib/blazar/models/blobs etc/blazar/config.toml -type f -exec sha256sum {} + | sort -k 2)
}

untouched() { [ "$(user_data)" = "$1" ] || fail "user data was touched: $(diff <(echo "$1") <(user_data))"; }

# A settings file that was edited is asked about when the next version ships another one, and stays.
check_upgrade() {
    local said
    said=$(within dpkg --install /packages/new.deb </dev/null 2>&1) && fail "nobody was asked about the edited settings"
    [[ $said == *"config.toml"* && $said == *"onffile"* ]] || fail "the upgrade says: $said"
    within dpkg --force-confold --configure blazar >"$WORK/dpkg.log" 2>&1 ||
        { cat "$WORK/dpkg.log"; fail "no upgrade"; }
    grep -q "of the next version" "$ROOT/etc/blazar/config.toml.dpkg-dist" || fail "the new file is not laid beside"
    check_owners
    echo "asked about: $(grep -o 'Configuration file.*' <<<"$said")"
}

check_downgrade() {
    local said
    said=$(within dpkg --install /packages/old.deb 2>&1) && fail "a downgrade across a schema went through"
    [[ $said == *"/var/lib/blazar/blazar.db.bak-$SCHEMA"* ]] || fail "the refused downgrade names no backup: $said"
    echo "refused: $(grep -o 'blazar.db has schema.*' <<<"$said")"
    [ "$(within dpkg-query -W -f '${Version} ${Status}' blazar)" = "$VERSION.1 install ok installed" ] ||
        fail "the refused downgrade left something else: $(within dpkg-query -W -f '${Version} ${Status}' blazar)"
    # by the words of the refusal
    mv "$DATA/blazar.db" "$DATA/blazar.db.schema-$((SCHEMA + 1))"
    rm -f "$DATA/blazar.db-wal" "$DATA/blazar.db-shm"
    mv "$DATA/blazar.db.bak-$SCHEMA" "$DATA/blazar.db"
    within dpkg --force-confold --install /packages/old.deb >"$WORK/dpkg.log" 2>&1 ||
        { cat "$WORK/dpkg.log"; fail "no way back"; }
}

# Without its program nothing of a person's is gone, and the package finds it again.
check_removed() {
    within apt-get remove -y -qq blazar >"$WORK/apt.log" 2>&1 || { cat "$WORK/apt.log"; fail "apt did not remove it"; }
    [ ! -e "$ROOT/usr/bin/blazar" ] && [ ! -e "$ROOT/usr/lib/python3/dist-packages/blazar" ] ||
        fail "the program is still there"
}

check_purged() {
    within apt-get purge -y -qq blazar >"$WORK/apt.log" 2>&1 || { cat "$WORK/apt.log"; fail "apt did not purge it"; }
    within dpkg --listfiles blazar >/dev/null 2>&1 && fail "dpkg still knows files of it"
    local left
    left=$(cd "$ROOT" && find etc usr var lib -iname '*blazar*' -not -path 'var/cache/apt/*' -not -path 'var/log/*')
    [ -z "$left" ] || fail "left behind: $left"
}

# debian/tests, in the root, against the package that is installed there.
run_tests() {
    local tests=(smoke faults unit)
    [ "${UNIT:-yes}" = yes ] || tests=(smoke faults)
    autopkgtest --output-dir "$WORK/autopkgtest" --summary-file "$WORK/summary" --timeout-test 1200 \
        "${tests[@]/#/--test-name=}" "$ROOT/packages/old.deb" "$WORK/source" -- chroot "$ROOT" \
        >"$WORK/autopkgtest.log" 2>&1 ||
        { grep -v ' \[ *[0-9]*%\]$' "$WORK/autopkgtest.log" | tail -n 120; fail "its own tests fail"; }
    grep -hE ' passed' "$WORK"/autopkgtest/*-stdout
    cat "$WORK/summary"
}
