#!/usr/bin/env node
import { main } from "./Cli.js"
import { runMain } from "./Program.js"

runMain(main(process.argv))
