import * as FastCheck from "effect/FastCheck"
import { beforeEach } from "vitest"
import { seed } from "./seed.js"

FastCheck.configureGlobal({ ...FastCheck.readConfigureGlobal(), seed })

// Tests that compute for long hold the thread one after the other, and the runner wants an answer within a minute.
beforeEach(() => new Promise<void>((resolve) => setImmediate(() => resolve())))
