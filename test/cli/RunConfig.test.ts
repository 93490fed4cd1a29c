import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { distance, nearest } from "../../src/cli/internal/nearest.js"
import { toOptions } from "../../src/cli/internal/runOptions.js"
import { about, settingNames, variable } from "../../src/cli/internal/settings.js"
import * as RunConfig from "../../src/cli/RunConfig.js"
import * as FailurePolicy from "../../src/rollout/FailurePolicy.js"
import { Workplace } from "./harness.js"

const context = { isSet: () => false, resume: false, starts: true }

const file = (text: string) => Either.getOrThrow(RunConfig.fromFile("run.yaml", text))

const resolved = (...layers: ReadonlyArray<RunConfig.Layer>) => Either.getOrThrow(RunConfig.resolve(layers, context))

const said = (...layers: ReadonlyArray<RunConfig.Layer>) =>
  RunConfig.explain(Either.getOrThrow(Either.flip(RunConfig.resolve(layers, context))))

describe("RunConfig", () => {
  it("takes a flag over the environment over the file over what holds unless given", () => {
    const steps = FastCheck.option(FastCheck.integer({ min: 1, max: 500 }), { nil: undefined })
    FastCheck.assert(
      FastCheck.property(steps, steps, steps, (flag, env, inFile) => {
        const { settings, sources } = resolved(
          RunConfig.fromFlags(new Map(flag === undefined ? [] : [["max-steps", String(flag)]])),
          RunConfig.fromEnvironment(env === undefined ? {} : { DESKHAND_MAX_STEPS: String(env) }),
          file(inFile === undefined ? "" : `max-steps: ${inFile}`)
        )
        assert.strictEqual(settings["max-steps"], flag ?? env ?? inFile ?? 15)
        assert.strictEqual(
          sources.get("max-steps")?._tag,
          flag !== undefined ? "Flag" : env !== undefined ? "Environment" : inFile !== undefined ? "File" : undefined
        )
      })
    )
  })

  it("reads its own print as the same settings", () => {
    const text = FastCheck.stringMatching(/^[a-z:#"'{}, -]{0,12}[a-z]$/)
    FastCheck.assert(
      FastCheck.property(
        FastCheck.record(
          {
            tasks: FastCheck.array(text, { maxLength: 3 }),
            history: text,
            out: text,
            pause: FastCheck.double({ min: 0, max: 1e6, noNaN: true }),
            "top-p": FastCheck.double({ min: 0.001, max: 1, noNaN: true }),
            "max-tokens": FastCheck.integer({ min: 1 }),
            failures: FastCheck.constant({ model: { inRun: 3 } })
          },
          { requiredKeys: [] }
        ),
        (values) => {
          const layer: RunConfig.Layer = {
            source: { _tag: "File", path: "a.yaml" },
            values: new Map(Object.entries({ ...values, agent: "noop" }))
          }
          const first = resolved(layer)
          assert.deepStrictEqual(resolved(file(RunConfig.print(first))).settings, first.settings)
        }
      )
    )
  })

  it("says all that is wrong and missing in one message, each with its place and an example", () => {
    const message = said(
      RunConfig.fromFlags(new Map([["concurrency", "0"]])),
      RunConfig.fromEnvironment({ DESKHAND_TEMPERATURE: "9", DESKHAND_STATE_DIR: "/x", DESKHAND_MODEL: "" }),
      file(
        "max-steps: many\nnetwork: bridge\ndomain: [os, 5]\nfailures:\n  model: {inRun: 0}\nmodel-url: http://h/v1\nbudget-cost: 5"
      )
    )
    for (const line of [
      "--concurrency must be a whole number from 1, and is 0",
      "DESKHAND_TEMPERATURE must be a number from 0 to 2, and is 9",
      'max-steps in run.yaml must be a whole number from 1, and is "many"',
      "--max-steps 30    DESKHAND_MAX_STEPS=30    in a file  max-steps: 30",
      "network in run.yaml must be one of none, host",
      "domain in run.yaml must be a list of texts",
      "failures.model.inRun in run.yaml",
      "model is missing: --model-url wants --model",
      "price-prompt is missing: --budget-cost wants",
      "price-completion is missing"
    ]) {
      assert.include(message, line)
    }
    assert.notInclude(message, "STATE_DIR")
    assert.notInclude(message, "max-resident")
    // One line for each problem, and under each how to set it.
    const problems = message.split("\n").filter((line) => /^ {2}\S/.test(line))
    assert.strictEqual(message.split("\n")[0], `${problems.length} settings are wrong or missing:`)
    assert.strictEqual(problems.length, 9)
  })

  it("names what was meant by a key that is none", () => {
    for (const [given, meant] of [
      ["maxSteps", "max-steps"],
      ["max_steps", "max-steps"],
      ["concurency", "concurrency"],
      ["domains", "domain"],
      ["MODEL-URL", "model-url"]
    ] as const) {
      assert.include(said(file(`${given}: 1`)), `${given} in run.yaml is no setting; did you mean ${meant}?`)
    }
    assert.match(said(file("colour: red")), /colour in run\.yaml is no setting$/)
    assert.include(said(RunConfig.fromEnvironment({ DESKHAND_MAX_STEP: "3" })), "did you mean DESKHAND_MAX_STEPS?")
  })

  it("takes no secret, and prints none that was given by mistake", () => {
    const secrets = ["sk-live-0123456789", "hunter22"]
    const message = said(
      RunConfig.fromEnvironment({ DESKHAND_API_KEY_ENV: "sk-live-0123456789" }),
      file("api-key: sk-live-0123456789\npassword: hunter22\nmodel-url: ftp://me:hunter22@host/v1\nmodel: m")
    )
    assert.include(message, "api-key in run.yaml is no setting, and no secret is ever one")
    assert.include(message, "must be the name of an environment variable that holds the key")
    assert.include(message, "ftp://host/v1 is no http or https address")
    const printed = RunConfig.print(resolved(file("model-url: http://me:hunter22@host/v1\nmodel: m")))
    for (const secret of secrets) assert.notInclude(message + printed, secret)
  })

  it("says where a file is broken, and takes no bomb", () => {
    const broken = (text: string) =>
      RunConfig.explain(Either.getOrThrow(Either.flip(RunConfig.fromFile("run.yaml", text))))
    assert.match(broken("a: [1, 2\nb: 3"), /run\.yaml is neither YAML nor JSON: .*line \d/)
    assert.match(broken("max-steps: 1\nmax-steps: 2"), /unique/i)
    assert.include(broken("[1, 2]"), "must hold settings by their names")
    const bomb = ["a0: &a0 [x, x]", ...Array.from({ length: 30 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`)]
    assert.include(broken(bomb.join("\n")), "alias")
    // JSON is YAML.
    assert.strictEqual(resolved(file('{"max-steps": 3, "agent": "noop"}')).settings["max-steps"], 3)
  })

  it("gives an example for each setting that is right", () => {
    for (const name of settingNames) {
      // What a setting wants beside itself.
      const beside = [
        "model-url: http://h/v1",
        "model: m",
        "provider: docker",
        "price-prompt: 1",
        "price-completion: 1"
      ]
      const others = beside.filter((line) => !line.startsWith(`${name}:`)).join("\n")
      const flag = RunConfig.fromFlags(
        new Map([[name, Object.entries(about).find(([key]) => key === name)?.[1].example ?? ""]])
      )
      const key = Either.getOrThrow(RunConfig.resolve([flag, file(others)], { ...context, isSet: () => true }))
      assert.strictEqual(key.sources.get(name)?._tag, "Flag", name)
    }
  })

  it("hands the collector what its settings say", () => {
    const { collect, drainSeconds } = toOptions(
      resolved(
        file(`agent: noop
creates: 4
ramp-up-seconds: 60
budget-seconds: 3600
budget-cost: 9
price-prompt: 1
price-completion: 2
breaker-failures: 0
drain-seconds: 30
failures: {model: {inRun: 5}}`)
      ).settings
    )
    assert.strictEqual(drainSeconds, 30)
    assert.deepInclude(collect.admission, { creates: 4 })
    assert.strictEqual(collect.admission?.rampUp?.milliseconds, 60_000)
    assert.deepInclude(collect.budget, { milliseconds: 3_600_000, cost: 9 })
    assert.deepStrictEqual(collect.budget?.prices, { promptMillion: 1, completionMillion: 2 })
    assert.strictEqual(collect.breaker, "off")
    assert.strictEqual(collect.failures?.model.inRun, 5)
    assert.deepStrictEqual(collect.failures?.task, FailurePolicy.standard.task)
  })

  it("measures how far words are apart", () => {
    // The published examples of the two distances: Levenshtein's kitten and sitting, and a swap as one edit.
    assert.strictEqual(distance("kitten", "sitting"), 3)
    assert.strictEqual(distance("model", "mdoel"), 1)
    FastCheck.assert(
      FastCheck.property(FastCheck.string({ maxLength: 8 }), FastCheck.string({ maxLength: 8 }), (a, b) => {
        assert.strictEqual(distance(a, b), distance(b, a))
        assert.isAtLeast(distance(a, b), Math.abs(a.length - b.length))
        assert.isAtMost(distance(a, b), Math.max(a.length, b.length))
        assert.strictEqual(distance(a, b) === 0, a === b)
      })
    )
    for (const name of settingNames) assert.strictEqual(nearest(variable(name).slice(9), settingNames), name)
  })

  describe("on the command line", () => {
    let place: Workplace
    beforeAll(() => {
      place = new Workplace()
    })
    afterAll(() => place.remove())

    it("prints the settings and where each comes from, and starts nothing", async () => {
      const config = join(place.folder, "run.yaml")
      writeFileSync(config, "max-steps: 30\ntemperature: 0.2\nscript: examples/solutions\nout: runs/never\n")
      const { status, stderr, stdout } = await place.run(
        ["run", "--config", config, "--print-config", "--concurrency", "3", "--domain", "os", "--domain", "chrome"],
        { DESKHAND_TEMPERATURE: "0.6" }
      )
      assert.strictEqual(status, 0, stderr)
      for (const line of [
        `max-steps: 30  # ${config}`,
        "temperature: 0.6  # DESKHAND_TEMPERATURE",
        "concurrency: 3  # --concurrency",
        "domain: [ os, chrome ]  # --domain",
        "repeats: 1  # default",
        "# vm:  # not set"
      ]) {
        assert.include(stdout.replace(/ {2,}#/g, "  #"), line)
      }
      assert.deepStrictEqual(place.folders(), [])
    })

    it("refuses a wrong file by one message, with status 2, and a missing one", async () => {
      const config = join(place.folder, "wrong.yaml")
      writeFileSync(config, "max-stepz: 30\nrepeats: -1\n")
      const wrong = await place.run(["run", "--config", config, "--top-p", "0"])
      assert.strictEqual(wrong.status, 2)
      for (const text of ["3 settings", "did you mean max-steps?", "repeats in", "--top-p must be"]) {
        assert.include(wrong.stderr, text)
      }
      const missing = await place.run(["run", "--config", join(place.folder, "no-such.yaml")])
      assert.strictEqual(missing.status, 2)
      assert.include(missing.stderr, "no-such.yaml, which could not be read")
      assert.deepStrictEqual(readdirSync(place.folder).sort(), ["run.yaml", "wrong.yaml"])
      assert.include(readFileSync(config, "utf8"), "max-stepz")
    })
  })
})
