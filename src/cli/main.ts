#!/usr/bin/env node
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { main } from "./Cli.js"

NodeRuntime.runMain(main(process.argv))
