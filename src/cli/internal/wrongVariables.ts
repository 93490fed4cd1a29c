/** What environment variables lack, in words: Effect's own say where data is missing in a context. */
import { type ConfigError, reduceWithContext } from "effect/ConfigError"

/** What a variable is to be given, for those that something cannot do without. */
const wanted: Readonly<Record<string, string>> = {
  E2B_API_KEY:
    "give the key of your E2B account, or, for a service of your own that speaks its protocol, its address in E2B_API_URL",
  OPENSANDBOX_BASE_URL: "give the address of the OpenSandbox service with its version, such as http://127.0.0.1:8080/v1"
}

const nameOf = (path: ReadonlyArray<string>) => path.join("_")

const lines: (error: ConfigError) => ReadonlyArray<string> = reduceWithContext<void, ReadonlyArray<string>>(undefined, {
  andCase: (_, left, right) => [...left, ...right],
  orCase: (_, left, right) => [...left, ...right],
  invalidDataCase: (_, path, message) => [path.length === 0 ? message : `${nameOf(path)} is wrong: ${message}`],
  missingDataCase: (_, path) => {
    const name = nameOf(path)
    const remedy = wanted[name]
    return [`the environment variable ${name} is not set${remedy === undefined ? "" : `: ${remedy}`}`]
  },
  sourceUnavailableCase: (_, path, message) => [`${nameOf(path)} cannot be read: ${message}`],
  unsupportedCase: (_, path, message) => [`${nameOf(path)} cannot be read: ${message}`]
})

/** One line for each variable, each once. */
export const wrongVariables = (error: ConfigError): string => Array.from(new Set(lines(error))).join("\n")
