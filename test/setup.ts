import { beforeEach } from "vitest"

// Tests that compute for long hold the thread one after the other, and the runner wants an answer within a minute.
beforeEach(() => new Promise<void>((resolve) => setImmediate(() => resolve())))
