#!/bin/bash
# The Debian package from its build to its purge, in a clean Debian 12 of its own: `make package-check`, as root.
#
# The steps are in tools/package/. It needs debootstrap, dpkg-dev with the build dependencies of debian/control, lintian,
# autopkgtest, systemd-container, curl, iproute2, python3-seccomp, and a way to Debian's mirror and to PyPI. The clean root
# is kept in build/package/ for the next time. UNIT=no leaves out the unit suite, MIRROR names another mirror.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
MIRROR=${MIRROR:-http://deb.debian.org/debian}
MODEL=smollm2-135m
SITE=ai.example.org
VERSION=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' blazar/__init__.py)
KEPT=$PWD/build/package
WORK=$(mktemp -d)
ROOT=$WORK/root
DATA=$ROOT/var/lib/blazar
DAEMON=""
CONTAINER=""

step() { echo; echo "== $* (at ${SECONDS} s)"; }
fail() { echo "package_check: $*" >&2; exit 1; }
within() { chroot "$ROOT" "$@"; }
for part in root service files booted; do . "tools/package/$part.sh"; done

clean_up() {
    [ -z "$DAEMON" ] || kill -KILL "$(pgrep -P "$DAEMON")" "$DAEMON" 2>/dev/null || true
    [ ! -s "$ROOT/run/nginx.pid" ] || kill "$(cat "$ROOT/run/nginx.pid")" 2>/dev/null || true
    [ -z "$CONTAINER" ] || kill -KILL "$(pgrep -P "$CONTAINER")" "$CONTAINER" 2>/dev/null || true
    umount -q --recursive --lazy "$ROOT" || true  # what an interruption has left running may still use it
    mountpoint -q "$ROOT" || rm -rf --one-file-system "$WORK"
}
trap clean_up EXIT

[ "$(id -u)" = 0 ] || fail "run it as root: it makes a root of its own"
step "build $VERSION, and a next version with one schema more; lintian"
build_both
step "a clean Debian 12"
make_root
step "install"
install_package old
UNIT_FILE=$ROOT$(within dpkg -L blazar | grep '/blazar\.service$')
check_installed
check_pages_and_completion
step "an engine, a model, nginx"
get python3-pip
as_service blazar engine install embedded
as_service blazar pull "$MODEL"
install_nginx
step "the unit's command; chats through nginx with TLS"
start
chat
stop
step "the package's own tests, as autopkgtest runs them"
run_tests
step "reinstall, upgrade"
within blazar config set max_loaded_models 2
before=$(user_data)
install_package old
untouched "$before"
check_upgrade
start
chat
stop
untouched "$before"
[ -s "$DATA/blazar.db.bak-$SCHEMA" ] || fail "there is no backup of the database"
step "downgrade"
check_downgrade
start
chat
stop
untouched "$before"
step "remove, install again"
check_removed
untouched "$before"
install_package old
untouched "$before"
step "booted: the unit as systemd runs it"
get systemd systemd-sysv dbus curl procps
boot
check_unit
chat
check_reload
before=$(user_data)
step "booted: the watchdog, an example of a drop-in"
check_watchdog
step "booted: what is refused is not tried again"
check_refusals
step "booted: upgrade, disable, remove"
check_upgrade_of_a_running_service
chat
untouched "$before"
shut_down
step "purge"
check_purged
echo
echo "the package holds, in ${SECONDS} s"
