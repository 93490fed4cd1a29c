#!/bin/bash
# Starts a desktop inside a sandbox and ends, with the reason on stderr, when a part of it ends.
# Everything it needs is in the environment: see src/desktop/DesktopSpec.ts.
set -u
umask 022

here=${DESKHAND_GUEST_ROOT:-/opt/deskhand}
width=${DESKHAND_WIDTH:-1920}
height=${DESKHAND_HEIGHT:-1080}
number=${DISPLAY#:}
bus=${DBUS_SESSION_BUS_ADDRESS#unix:path=}

say() { printf 'desktop: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

mkdir -p "$HOME"/{Desktop,Documents,Downloads,Music,Pictures,Videos,.config,.local/share,.cache} "$XDG_RUNTIME_DIR" \
  || die "the home or runtime folder cannot be made"
chmod 700 "$XDG_RUNTIME_DIR"
[ -d /tmp/.X11-unix ] || mkdir -m 1777 /tmp/.X11-unix || die "/tmp/.X11-unix cannot be made"

# X programs look for the display by its abstract name first, which a shared network shares too. Ours has none.
if grep -qs "@/tmp/.X11-unix/X$number\$" /proc/net/unix; then
  die "display :$number is taken by an X server outside this sandbox, whose network it shares: programs would draw there"
fi

if (exec 3<>"/dev/tcp/127.0.0.1/${DESKHAND_GUEST_PORT:-5000}") 2>/dev/null; then
  die "port ${DESKHAND_GUEST_PORT:-5000} is taken: another desktop, or this host, listens on the network that is shared"
fi

# Programs ask here which folder is for what.
if [ ! -e "$HOME/.config/user-dirs.dirs" ]; then
  for folder in Desktop Documents Downloads:DOWNLOAD Music Pictures Videos; do
    name=${folder#*:}
    printf 'XDG_%s_DIR="$HOME/%s"\n' "${name^^}" "${folder%:*}"
  done >"$HOME/.config/user-dirs.dirs"
fi

# The first start of LibreOffice asks nothing and shows no tips.
office=$HOME/.config/libreoffice/4/user
if [ ! -e "$office/registrymodifications.xcu" ]; then
  mkdir -p "$office" && cp "$here/etc/libreoffice/registrymodifications.xcu" "$office/"
fi

# VLC says over HTTP what it plays, as in the official image, asks nothing at its first start, and needs no sound device.
player=$HOME/.config/vlc
if [ ! -e "$player/vlcrc" ]; then
  mkdir -p "$player" && cp "$here/etc/vlc/vlcrc" "$player/"
fi

declare -A part
trap 'trap - EXIT; kill "${!part[@]}" 2>/dev/null' EXIT
trap 'exit 143' TERM INT

# A part says on a pipe of its own that it is ready: nothing is waited for by sleeping.
ready=$(mktemp -d "${TMPDIR:-/tmp}/deskhand-start-XXXXXX") || die "no temporary folder can be made"
mkfifo "$ready/x" "$ready/bus" "$ready/openbox" || die "no pipes can be made"
exec 5<>"$ready/x" 6<>"$ready/bus" 7<>"$ready/openbox"

# The end of the display ends what draws on it, whose ends may be seen first: it is the one to name.
name_display() {
  local tries
  [ -n "${xvfb:-}" ] || return
  for tries in 1 2 3 4 5; do
    kill -0 "$xvfb" 2>/dev/null || break
    sleep 0.1
  done
  kill -0 "$xvfb" 2>/dev/null && return
  wait "$xvfb"
  die "Xvfb ended with code $?"
}

await() { # name, process, pipe
  local line tries=0
  while ! read -r -t 0.5 line <&"$3"; do
    kill -0 "$2" 2>/dev/null || { name_display; die "$1 ended before it was ready"; }
    tries=$((tries + 1))
    [ "$tries" -lt 60 ] || die "$1 was not ready within 30 s"
  done
}

Xvfb "$DISPLAY" -screen 0 "${width}x${height}x24" -dpi 96 -nolisten tcp -nolisten local -noreset -s 0 \
  -displayfd 5 >/dev/null &
xvfb=$!
part[$xvfb]=Xvfb
# It says each service that it starts, which nobody wants among the reasons of a failure.
dbus-daemon --session --nofork --nopidfile --address="unix:path=$bus" --print-address=6 >/dev/null 2>"$XDG_RUNTIME_DIR/dbus.log" &
dbus=$!
part[$dbus]=dbus-daemon
await Xvfb "$xvfb" 5
await dbus-daemon "$dbus" 6
command -v setxkbmap >/dev/null && setxkbmap us
"$here/bin/deskhand-wallpaper" --plain &
paint=$!

# Toolkits look for this when they start, so it has to be set before the first program does.
dbus-send --session --print-reply --dest=org.a11y.Bus /org/a11y/bus org.freedesktop.DBus.Properties.Set \
  string:org.a11y.Status string:IsEnabled variant:boolean:true >/dev/null \
  || say "the accessibility bus is not available: accessibility trees will be empty"

openbox_start() {
  openbox --sm-disable --config-file "$here/etc/openbox/rc.xml" --startup "$1" &
  openbox=$!
  part[$openbox]=openbox
}
openbox_start "/bin/sh -c 'echo up >$ready/openbox'"
await openbox "$openbox" 7
exec 5>&- 6>&- 7>&-
wait "$paint" || say "the background could not be painted"
rm -rf "$ready"

# Chrome's DevTools listen on the loopback alone, and a container's published ports arrive at its own address.
if [ -n "${DESKHAND_GUEST_RELAY:-}" ]; then
  for address in $(hostname -I); do
    for port in $DESKHAND_GUEST_RELAY; do
      case $address in
        *:*) socat "TCP6-LISTEN:$port,bind=[$address],fork,reuseaddr" "TCP4:127.0.0.1:$port" 2>/dev/null & ;;
        *) socat "TCP4-LISTEN:$port,bind=$address,fork,reuseaddr" "TCP4:127.0.0.1:$port" 2>/dev/null & ;;
      esac
      part[$!]="the relay of port $port"
    done
  done
fi

# For people who look on: the screen as a page. It is no part of the desktop, which goes on without it.
if [ -n "${DESKHAND_VNC_PORT:-}" ]; then
  if command -v x11vnc >/dev/null && command -v websockify >/dev/null; then
    x11vnc -display "$DISPLAY" -localhost -forever -shared -nopw -quiet -rfbport 5900 >/dev/null 2>&1 &
    websockify --web /usr/share/novnc "$DESKHAND_VNC_PORT" 127.0.0.1:5900 >/dev/null 2>&1 &
  else
    say "x11vnc and websockify are not installed: nobody can look on at port $DESKHAND_VNC_PORT"
  fi
fi

"$here/node" "$here/server.mjs" &
server=$!
part[$server]="the guest server"

restarts=0
while true; do
  wait -n -p ended "${!part[@]}"
  code=$?
  [ "$ended" = "$xvfb" ] || name_display
  if [ "$ended" = "$openbox" ] && [ "$restarts" -lt 5 ]; then
    restarts=$((restarts + 1))
    say "openbox ended with code $code and is started again"
    unset "part[$ended]"
    openbox_start true
    continue
  fi
  die "${part[$ended]:-a part of the desktop} ended with code $code"
done
