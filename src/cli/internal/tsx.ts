import { spawn } from "node:child_process"
import { exit } from "./exit.js"

/** What the `tsx` command has its child require, by which the child tells it of signals. */
const isPreflight = (argument: string): boolean => /[\\/]tsx[\\/]dist[\\/]preflight/.test(argument)

/**
 * Whether a program that Node runs with these options is a child of the `tsx` command. That command passes signals on and
 * kills a child that does not say within some 60 ms that it got one, which a program that is at work on two cores with
 * eight desktops may not.
 */
export const underTsx = (execArgv: ReadonlyArray<string>): boolean => execArgv.some(isPreflight)

/** The same options of Node's without what ties a process to the `tsx` command: what loads TypeScript stays. */
export const withoutTsx = (execArgv: ReadonlyArray<string>): ReadonlyArray<string> =>
  execArgv.filter((argument, index) => !isPreflight(argument) && !isPreflight(execArgv[index + 1] ?? ""))

/**
 * Runs the same program once more in a process of its own, outside the reach of `tsx`, with signals passed on, and takes
 * over its exit status. When this process is killed, the other one sees its channel close and stops in good order.
 */
export const runBesideTsx = (): void => {
  // The young generation is kept small: what a driver holds is little, and memory is what eight desktops want.
  const child = spawn(
    process.execPath,
    ["--max-semi-space-size=4", ...withoutTsx(process.execArgv), ...process.argv.slice(1)],
    { stdio: ["inherit", "inherit", "inherit", "ipc"] }
  )
  let hungUp = false
  for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      hungUp ||= signal === "SIGHUP"
      child.kill(signal)
    })
  }
  child.on("error", (error) => {
    process.stderr.write(`deskhand: could not start node: ${error.message}\n`)
    process.exit(1)
  })
  child.on("exit", (code, signal) => exit(code ?? (signal === "SIGKILL" ? 137 : 1), hungUp))
}
