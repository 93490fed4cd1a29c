import { execFileSync } from "node:child_process"
import { fileURLToPath } from "node:url"

/** Builds what tests run as a user would: the guest server that desktops start, and the package. */
export default (): void => {
  execFileSync("npm", ["run", "build"], {
    cwd: fileURLToPath(new URL("..", import.meta.url)),
    stdio: ["ignore", "ignore", "inherit"]
  })
}
