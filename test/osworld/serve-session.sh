#!/bin/sh
# Drives one session of a server of desktops from its seed to its close, with nothing but curl, and python3 for JSON:
#
#   serve-session.sh URL TASK_FILE SOLUTION
#
# TASK_FILE is below ./examples/tasks, and SOLUTION a file of replies whose python blocks are the actions. The token is in
# DESKHAND_SERVE_TOKEN. Prints the score. Fails as soon as an answer is not a success.
set -eu
url=$1 task_file=$2 solution=$3
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

# The token goes into a file, because arguments are for everybody on this machine to see.
printf 'header = "authorization: Bearer %s"\n' "$DESKHAND_SERVE_TOKEN" >"$here/curl"

# post PATH BODY_FILE: the session is in the cookie that the seed has set.
post() {
  curl --silent --show-error --fail-with-body --config "$here/curl" --cookie "$here/cookies" --cookie-jar "$here/cookies" \
    --header 'content-type: application/json' --data-binary "@$2" "$url$1"
}

field() {
  python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

curl --silent --show-error --fail "$url/healthz" | field status | grep -qx ok

python3 - "$task_file" >"$here/seed" <<'PY'
import json, sys
task = json.load(open(f"examples/tasks/{sys.argv[1]}"))
print(json.dumps({"task_config": task, "task_file": sys.argv[1], "environment": {"images": "link"}}))
PY
post /seed_session "$here/seed" >"$here/seeded"
echo "session $(field session_id <"$here/seeded") is $(field status <"$here/seeded")" >&2

python3 - "$solution" "$here" <<'PY'
import json, re, sys
blocks = re.findall(r"```python\n(.*?)\n```", open(sys.argv[1]).read(), re.S)
for number, action in enumerate(blocks):
    with open(f"{sys.argv[2]}/step-{number:03}", "w") as body:
        json.dump({"operation_id": f"step-{number}", "action": action}, body)
PY
for body in "$here"/step-*; do
  post /step "$body" >"$here/stepped"
  echo "$(field operation_id <"$here/stepped"): done $(field done <"$here/stepped")" >&2
done

# The last screen, by its link.
blob=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["observation"]["screenshot"]["url"])' <"$here/stepped")
curl --silent --show-error --fail --config "$here/curl" --cookie "$here/cookies" --output "$here/screen" "$url$blob"
test "$(dd if="$here/screen" bs=1 skip=1 count=3 2>/dev/null)" = PNG

echo '{}' >"$here/empty"
post /evaluate "$here/empty" | field score
post /close "$here/empty" | field closed >&2
