import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    // The package as it is published, the guest server in it, is built once before the tests.
    setupFiles: ["test/setup.ts"],
    include: ["test/**/*.test.ts", "examples/**/*.test.ts"],
    // A desktop dies with the thread that started it, so each test file gets a process, and two cores carry two.
    pool: "forks",
    poolOptions: { forks: { maxForks: 2, minForks: 1 } },
    testTimeout: 60_000,
    hookTimeout: 120_000
  }
})
