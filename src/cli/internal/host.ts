import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

/** Whether this program may install packages. */
export const isRoot: boolean = process.getuid?.() === 0

// `src/cli/internal` and `dist/cli/internal` are both three folders below the package's root.
const root = new URL("../../../", import.meta.url)

const manifest: unknown = JSON.parse(readFileSync(new URL("package.json", root), "utf8"))

/** This package's version. */
export const version: string =
  typeof manifest === "object" && manifest !== null && "version" in manifest ? String(manifest.version) : "unknown"

/** The tasks that come with the package. */
export const bundledTasks: string = fileURLToPath(new URL("examples/tasks", root))

/** The recorded solutions of those tasks. */
export const bundledScripts: string = fileURLToPath(new URL("examples/solutions", root))
