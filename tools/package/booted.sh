# For tools/package_check.sh: the same root, booted by its own systemd in a container without a network.

boot() {
    # What was mounted for the chroot; systemd mounts its own.
    umount --recursive "$ROOT/proc" "$ROOT/dev" "$ROOT/wheels"
    # Nothing is to be downloaded or cleaned up behind our back.
    rm -f "$ROOT"/etc/systemd/system/timers.target.wants/*.timer
    systemd-nspawn --quiet --register=no --keep-unit --private-network --console=pipe --directory="$ROOT" --boot \
        </dev/null >"$WORK/boot.log" 2>&1 &
    CONTAINER=$!
    patiently has_booted || { tail -n 30 "$WORK/boot.log"; fail "systemd does not boot here"; }
    NETWORK=/proc/$INIT/ns/net
}

has_booted() {
    INIT=$(pgrep -P "$CONTAINER" | head -n 1) && [ -n "$INIT" ] &&
        [[ $(booted systemctl is-system-running 2>/dev/null) == @(running|degraded) ]]
}

shut_down() {
    kill -s RTMIN+4 "$INIT"  # poweroff.target
    wait "$CONTAINER" || fail "the container ended with $?"
    CONTAINER=
    mount -t proc proc "$ROOT/proc"
}

booted() {
    nsenter --target "$INIT" --mount --uts --ipc --net --pid --cgroup --root --wd \
        env -i PATH="$PATH" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# Try for a minute.
patiently() {
    local end=$((SECONDS + 60))
    until "$@"; do [ "$SECONDS" -lt "$end" ] || return 1; sleep 0.2; done
}

known() { booted systemctl show --property="$1" --value blazar.service; }
is() { [ "$(known "$1")" = "$2" ]; }
runs_as_other_than() { is ActiveState active && [[ $(known MainPID) != @(0|"$1") ]]; }

# What systemd says of it must become $2 of property $1.
becomes() { patiently is "$1" "$2" || fail "$1 does not become $2: $(told)"; }

told() { booted systemctl status --no-pager --lines=15 blazar || true; }

# $1 is the settings file; the daemon must refuse it once, with exit code 2 and the words $2.
refuses() {
    printf "$1" >"$ROOT/etc/blazar/config.toml"
    booted systemctl reset-failed blazar
    booted systemctl start blazar 2>/dev/null && fail "it starts with $1"
    is ActiveState failed && is ExecMainStatus 2 && is NRestarts 0 || fail "with $1: $(told)"
    booted blazar service logs --lines 20 | grep -qF "$2" || fail "no word of $2: $(told)"
}

check_unit() {
    becomes ActiveState active
    [[ $(known StatusText) == "listening on http://127.0.0.1:11435" ]] || fail "the status says: $(known StatusText)"
    booted systemctl is-enabled --quiet blazar
    local said
    said=$(booted systemd-analyze verify --man=no "$(known FragmentPath)" 2>&1)
    [ -z "$said" ] || fail "systemd says: $said"
    booted blazar service status
    local main line
    main=$(known MainPID)
    for line in "NoNewPrivs:	1" "Seccomp:	2" "CapEff:	0000000000000000" "CapBnd:	0000000000000000"; do
        booted grep -qx "$line" "/proc/$main/status" || fail "not so confined: $(booted cat "/proc/$main/status")"
    done
}

# The same process goes on, whatever the settings file holds.
check_reload() {
    local main
    main=$(known MainPID)
    booted blazar config set max_queued 100
    booted systemctl reload blazar
    booted blazar service logs --lines 20 | grep -o 'changed: max_queued' || fail "no word of the reload: $(told)"
    is MainPID "$main" && is ActiveState active || fail "the reload: $(told)"
    cp -p "$ROOT/etc/blazar/config.toml" "$WORK/config.toml"
    sed -i '1i prot = 1' "$ROOT/etc/blazar/config.toml"
    booted systemctl reload blazar 2>/dev/null && fail "a settings file that is wrong was reloaded"
    booted blazar service logs --lines 20 | grep -q "prot" || fail "no word of the refusal: $(told)"
    is MainPID "$main" && is ActiveState active || fail "the refused reload: $(told)"
    cp -p "$WORK/config.toml" "$ROOT/etc/blazar/config.toml"
    chat
}

check_watchdog() {
    mkdir -p "$ROOT/etc/systemd/system/blazar.service.d"
    printf '[Service]\nWatchdogSec=10\n' >"$ROOT/etc/systemd/system/blazar.service.d/quick.conf"
    cp "$ROOT/usr/share/doc/blazar/examples/memory.conf.example" "$ROOT/etc/systemd/system/blazar.service.d/memory.conf"
    booted systemctl daemon-reload
    booted systemctl restart blazar
    [ "$(known MemoryMax)" != infinity ] || fail "the example of a drop-in limits nothing"
    local main
    main=$(known MainPID)
    booted sleep 12
    is MainPID "$main" || fail "one that works was taken for hanging"
    booted systemctl kill --kill-whom=main --signal=STOP blazar
    patiently runs_as_other_than "$main" || fail "one that hangs was not started anew"
    booted journalctl -u blazar --no-pager | grep -o 'Watchdog timeout.*'
    main=$(known MainPID)
    booted systemctl kill --kill-whom=main --signal=KILL blazar
    patiently runs_as_other_than "$main" || fail "one that was killed was not started anew"
    rm -r "$ROOT/etc/systemd/system/blazar.service.d"
    booted systemctl daemon-reload
}

check_refusals() {
    booted systemctl stop blazar
    is Result success && is ExecMainStatus 0 || fail "the stop: $(told)"
    booted systemd-run --quiet --unit=squatter python3 -m http.server --bind 127.0.0.1 11435
    patiently booted curl -fs -o /dev/null http://127.0.0.1:11435
    booted systemctl reset-failed blazar
    booted systemctl start blazar 2>/dev/null && fail "it starts on an address that is taken"
    is ActiveState failed && is ExecMainStatus 3 && is NRestarts 0 || fail "a taken address: $(told)"
    local code=0
    booted blazar service status || code=$?
    [ "$code" = 4 ] || fail "\`blazar service status\` ended with $code"
    booted systemctl stop squatter

    cp -p "$ROOT/etc/blazar/config.toml" "$WORK/config.toml"
    refuses 'max_loaded_model = 2\n' 'did you mean `max_loaded_models`?'
    refuses '[[keys]]\nkey = "s"\nmodles = ["m"]\n' 'did you mean `models`?'
    refuses '\xff\xfep\0o\0r\0t\0 \0=\0001\0' 'UTF-16'
    cp -p "$WORK/config.toml" "$ROOT/etc/blazar/config.toml"
    # A database that is damaged stays damaged: the unit gives up, and the file is as it was.
    cp -p "$DATA/blazar.db" "$WORK/blazar.db"
    truncate --size=100 "$DATA/blazar.db"
    booted systemctl reset-failed blazar
    booted systemctl start blazar 2>/dev/null && fail "it starts with a damaged database"
    becomes ActiveState failed
    booted blazar service logs --lines 50 | grep -o 'it is damaged.*' | tail -n 1
    [ "$(stat -c %s "$DATA/blazar.db")" = 100 ] || fail "the damaged database was written over"
    cp -p "$WORK/blazar.db" "$DATA/blazar.db"
    booted systemctl reset-failed blazar
    booted systemctl start blazar
}

# dpkg, while the service runs and the next time while somebody has disabled it.
check_upgrade_of_a_running_service() {
    local main
    main=$(known MainPID)
    booted dpkg --force-confold --install /packages/new.deb >"$WORK/dpkg.log" 2>&1 ||
        { cat "$WORK/dpkg.log"; fail "no upgrade"; }
    patiently runs_as_other_than "$main" || fail "the upgrade did not restart the service"
    [ -s "$DATA/blazar.db.bak-$SCHEMA" ] || fail "there is no backup of the database"
    [ "$(booted blazar --version)" = "blazar $VERSION.1" ] || fail "the version is $(booted blazar --version)"
    booted systemctl disable --quiet --now blazar
    booted dpkg --force-confold --install /packages/new.deb >"$WORK/dpkg.log" 2>&1
    [ "$(booted systemctl is-enabled blazar || true)" = disabled ] && is ActiveState inactive ||
        fail "what was disabled came back: $(told)"
    booted systemctl enable --quiet --now blazar
    booted apt-get remove -y -qq blazar >"$WORK/apt.log" 2>&1
    [ "$(booted systemctl is-active blazar || true)" = inactive ] || fail "the service outlives its program"
    booted pgrep -u blazar && fail "a process outlives the package"
    booted dpkg --force-confold --install /packages/new.deb >"$WORK/dpkg.log" 2>&1
    becomes ActiveState active
}
