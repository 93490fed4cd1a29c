/**
 * The real engine that the Docker tests use, when there is one: DOCKER_HOST's, or the one that start-engine.sh starts.
 */
import { execFileSync } from "node:child_process"
import { existsSync } from "node:fs"

const ours = `${process.env["DESKHAND_DOCKER_ROOT"] ?? "/var/tmp/deskhand-docker"}/docker.sock`

export const host = process.env["DOCKER_HOST"] ?? (existsSync(ours) ? `unix://${ours}` : "unix:///var/run/docker.sock")

/** Made by start-engine.sh without a registry. */
export const image = process.env["DESKHAND_TEST_IMAGE"] ?? "deskhand-base:bookworm"

/** Built by src/desktop/guest/build-image.sh. */
export const desktopImage = process.env["DESKHAND_DESKTOP_IMAGE"] ?? "deskhand-desktop:latest"

/** The docker command, for what a test wants to know without our own client. */
export const docker = (...words: ReadonlyArray<string>): string =>
  execFileSync("docker", ["-H", host, ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim()

const lacking = (name: string): string | undefined => {
  try {
    docker("image", "inspect", name)
    return undefined
  } catch (cause) {
    const said =
      typeof cause === "object" && cause !== null && "stderr" in cause ? String(cause.stderr).trim() : String(cause)
    return /no such image/i.test(said) ? `the engine at ${host} has no image ${name}` : `no Docker engine: ${said}`
  }
}

/** Why tests that need the engine are skipped; undefined when they are not. `.ci/run` does not accept a skip. */
export const skipReason = (wanted: string = image): string | undefined => {
  const reason = lacking(wanted)
  if (reason === undefined) {
    return undefined
  }
  const hint =
    wanted === image ? "run test/sandbox/docker/start-engine.sh" : "run src/desktop/guest/build-image.sh on it"
  if (process.env["DESKHAND_REQUIRE_DOCKER"] === "1") {
    throw new Error(`${reason}: ${hint}`)
  }
  return `${reason}: ${hint}`
}
