import { killScript } from "/work/i3/src/sandbox/internal/docker/exec.js"

process.stdout.write(killScript)
