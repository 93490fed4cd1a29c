/**
 * How a task is judged: what to look at, what to compare it with, and how several scores become one.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type * as AST from "effect/SchemaAST"
import { list } from "./internal/fields.js"
import { SetupStep } from "./SetupStep.js"

const GetterJson = Schema.Struct(
  { type: Schema.NonEmptyString },
  { key: Schema.String, value: Schema.Unknown }
).annotations({ title: "a getter: an object with a type" })

/**
 * What to fetch for a metric: the getter's name and its parameters, which the getter decodes itself.
 *
 * @since 0.1.0
 * @category models
 */
export const GetterSpec = Schema.transform(
  GetterJson,
  Schema.Struct({
    type: Schema.NonEmptyString,
    parameters: Schema.Record({ key: Schema.String, value: Schema.Unknown })
  }),
  {
    strict: true,
    decode: ({ type, ...parameters }) => ({ type, parameters }),
    encode: ({ parameters, type }) => ({ ...parameters, type })
  }
)

/**
 * @since 0.1.0
 * @category models
 */
export type GetterSpec = typeof GetterSpec.Type

const Options = Schema.Record({ key: Schema.String, value: Schema.Unknown }).annotations({ title: "an object" })

/**
 * One metric with what it compares. Without `expected` the metric judges the result alone.
 *
 * @since 0.1.0
 * @category models
 */
export const Check = Schema.Struct({
  metric: Schema.NonEmptyString,
  result: Schema.typeSchema(GetterSpec),
  expected: Schema.UndefinedOr(Schema.typeSchema(GetterSpec)),
  options: Options
})

/**
 * @since 0.1.0
 * @category models
 */
export type Check = typeof Check.Type

/**
 * How several scores become one (`evaluator/Combine`).
 *
 * @since 0.1.0
 * @category models
 */
export const Conjunction = Schema.Literal("and", "or")

/**
 * @since 0.1.0
 * @category models
 */
export type Conjunction = typeof Conjunction.Type

const postconfig = Schema.Array(Schema.typeSchema(SetupStep))

/**
 * The task cannot be done, and the right answer is to say so.
 *
 * @since 0.1.0
 * @category models
 */
export const Infeasible = Schema.TaggedStruct("Infeasible", { postconfig })

/**
 * At least one check, in the order in which they are evaluated.
 *
 * @since 0.1.0
 * @category models
 */
export const Checks = Schema.TaggedStruct("Checks", {
  conj: Conjunction,
  checks: Schema.NonEmptyArray(Check),
  postconfig
})

/**
 * @since 0.1.0
 * @category models
 */
export type Evaluator = typeof Infeasible.Type | typeof Checks.Type

const EvaluatorJson = Schema.Struct({
  func: Schema.Union(
    Schema.NonEmptyString,
    Schema.NonEmptyArray(Schema.NonEmptyString).annotations({ title: "a non-empty list of metric names" })
  ),
  conj: Schema.optionalWith(Conjunction, { default: () => "and", nullable: true }),
  result: Schema.Unknown.pipe(Schema.optional),
  expected: Schema.Unknown.pipe(Schema.optional),
  options: Schema.Unknown.pipe(Schema.optional),
  postconfig: list(SetupStep)
})

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === "" ||
  value === false ||
  (typeof value === "object" && Object.keys(value).length === 0)

/** Issues carry the JSON's own path, so that a message points into the file and not into our types. */
const readChecks = (
  json: typeof EvaluatorJson.Type,
  ast: AST.AST
): Either.Either<Arr.NonEmptyReadonlyArray<Check>, ParseResult.ParseIssue> => {
  const at = (path: Arr.NonEmptyReadonlyArray<PropertyKey>, issue: ParseResult.ParseIssue) =>
    new ParseResult.Pointer(path, json, issue)
  const fail = (key: string, actual: unknown, message: string) =>
    Either.left(at([key], new ParseResult.Type(ast, actual, message)))
  const decodeAt = <A, I>(schema: Schema.Schema<A, I>, value: unknown, path: Arr.NonEmptyReadonlyArray<PropertyKey>) =>
    Either.mapLeft(ParseResult.decodeUnknownEither(schema, { errors: "all" })(value), (issue) => at(path, issue))

  const check = (metric: string, result: unknown, expected: unknown, options: unknown, suffix: ReadonlyArray<number>) =>
    Either.gen(function* () {
      return {
        metric,
        result: yield* decodeAt(GetterSpec, result, ["result", ...suffix]),
        expected: isEmpty(expected) ? undefined : yield* decodeAt(GetterSpec, expected, ["expected", ...suffix]),
        options: isEmpty(options) ? {} : yield* decodeAt(Options, options, ["options", ...suffix])
      }
    })

  return Either.gen(function* () {
    const { expected, func, options, result } = json
    if (typeof func === "string") return Arr.of(yield* check(func, result, expected, options, []))
    if (func.includes("infeasible")) return yield* fail("func", func, `"infeasible" stands alone and not in a list`)
    const lists = {
      result,
      expected: isEmpty(expected) ? undefined : expected,
      options: isEmpty(options) ? undefined : options
    }
    for (const [key, value] of Object.entries(lists)) {
      if (value === undefined && key !== "result") continue
      const wanted = `a list of ${func.length}, because func is a list of ${func.length}`
      if (!Array.isArray(value)) return yield* fail(key, value, `Expected ${wanted}, found no list`)
      if (value.length !== func.length)
        return yield* fail(key, value, `Expected ${wanted}, found a list of ${value.length}`)
    }
    const entry = (value: unknown, index: number): unknown => (Array.isArray(value) ? value[index] : undefined)
    const checks: Array<Check> = []
    for (const [index, metric] of func.entries()) {
      checks.push(yield* check(metric, entry(result, index), entry(expected, index), entry(options, index), [index]))
    }
    return Arr.isNonEmptyReadonlyArray(checks) ? checks : yield* fail("func", func, "Expected at least one metric")
  })
}

/**
 * `evaluator` as a sum. A list of metrics needs lists of the same length in `result` and, where they are present, in
 * `expected` and `options`; empty entries of these two mean "none" and `{}`. It decodes only: a task is written as its
 * `raw`.
 *
 * @since 0.1.0
 * @category models
 */
export const Evaluator = Schema.transformOrFail(EvaluatorJson, Schema.Union(Infeasible, Checks), {
  strict: true,
  decode: (json, _, ast) =>
    json.func === "infeasible"
      ? Either.right({ _tag: "Infeasible" as const, postconfig: json.postconfig })
      : Either.map(readChecks(json, ast), (checks) => ({
          _tag: "Checks" as const,
          conj: json.conj,
          checks,
          postconfig: json.postconfig
        })),
  encode: (evaluator, _, ast) =>
    Either.left(
      new ParseResult.Forbidden(ast, evaluator, "An evaluator is not written back; write the task's raw JSON")
    )
})
