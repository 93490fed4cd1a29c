#!/bin/bash
# Starts a Docker engine for the tests on a Debian machine, as root, and prints the DOCKER_HOST that reaches it. Doing
# it twice is harmless: an engine that answers is left as it is.
#
#   test/sandbox/docker/start-engine.sh        starts it and makes the base image
#   test/sandbox/docker/start-engine.sh stop   ends it; its data stay
set -euo pipefail

root=${DESKHAND_DOCKER_ROOT:-/var/tmp/deskhand-docker}
socket=$root/docker.sock
base=deskhand-base:bookworm
mirror=${DESKHAND_DEBIAN_MIRROR:-http://deb.debian.org/debian}
export DOCKER_HOST=unix://$socket

say() { printf 'engine: %s\n' "$*" >&2; }
answers() { curl -sf --max-time 5 --unix-socket "$socket" http://docker/_ping >/dev/null 2>&1; }

if [ "${1:-}" = stop ]; then
  if [ -s "$root/docker.pid" ]; then
    pid=$(cat "$root/docker.pid")
    kill "$pid" 2>/dev/null && while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
  fi
  exit 0
fi

[ "$(id -u)" = 0 ] || { say "an engine of its own needs root"; exit 1; }

missing=()
command -v dockerd >/dev/null || missing+=(docker.io)
command -v debootstrap >/dev/null || missing+=(debootstrap)
command -v iptables >/dev/null || missing+=(iptables)
command -v curl >/dev/null || missing+=(curl)
if [ "${#missing[@]}" -gt 0 ]; then
  say "installing ${missing[*]}"
  # Debian's package starts an engine on the default socket as soon as it is installed; this one has its own.
  [ -e /usr/sbin/policy-rc.d ] || { printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d; policy=1; }
  { apt-get install -y --no-install-recommends "${missing[@]}" || { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; }; } >&2
  [ -z "${policy:-}" ] || rm -f /usr/sbin/policy-rc.d
fi

mkdir -p "$root"
# Two test runs at once start one engine and make one image.
exec 9>"$root/lock"
flock 9

# A number that a killed engine left in a file may be another process's by now, which dockerd would take for itself.
forget() { # file, name
  if [ -s "$1" ] && [ "$(cat "/proc/$(cat "$1")/comm" 2>/dev/null)" != "$2" ]; then rm -f "$1"; fi
}

if ! answers; then
  forget "$root/docker.pid" dockerd
  forget "$root/exec/containerd/containerd.pid" containerd
  say "starting dockerd; its log is $root/dockerd.log"
  setsid dockerd --data-root "$root/data" --exec-root "$root/exec" -H "unix://$socket" --pidfile "$root/docker.pid" \
    ${DESKHAND_DOCKERD_FLAGS:-} >"$root/dockerd.log" 2>&1 9>&- </dev/null &
  for _ in $(seq 150); do
    answers && break
    sleep 0.2
  done
  answers || { tail -n 20 "$root/dockerd.log" >&2; say "dockerd does not answer"; exit 1; }
fi

if ! docker image inspect "$base" >/dev/null 2>&1; then
  say "making $base from $mirror"
  rm -rf "$root/rootfs"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$root/rootfs" "$mirror" >"$root/debootstrap.log" 2>&1 \
    || { tail -n 20 "$root/debootstrap.log" >&2; exit 1; }
  rm -rf "$root/rootfs"/var/cache/apt/archives/*.deb "$root/rootfs"/var/lib/apt/lists/*
  tar -C "$root/rootfs" -c . | docker import - "$base" >&2
  rm -rf "$root/rootfs"
fi

printf '%s\n' "$DOCKER_HOST"
