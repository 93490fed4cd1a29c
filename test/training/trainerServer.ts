/** A trainer behind HTTP, as somebody else might write one: it knows the wire and nothing of ours but the reference policy. */
import * as Http from "node:http"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as ChainPolicy from "../../src/training/ChainPolicy.js"

interface WireRow {
  readonly id: string
  readonly token_ids: ReadonlyArray<number>
  readonly weights: ReadonlyArray<number>
  readonly previous_logprobs: ReadonlyArray<number>
  readonly advantage: number
}

interface Body {
  readonly rows: ReadonlyArray<WireRow>
  readonly batch_id: string
  readonly version: number
}

interface Answer {
  readonly status: number
  readonly body: unknown
}

export interface TrainerServer {
  readonly url: string
  /** `METHOD /route`, as they came. */
  readonly requests: ReadonlyArray<string>
  readonly authorizations: ReadonlyArray<string | undefined>
  readonly version: () => number
  readonly policy: () => ChainPolicy.ChainPolicy
}

/**
 * @param fault What to answer in the place of the right answer, by the count of requests from 0: a status with a body, or
 * `lost`, which does the work and then breaks the connection.
 */
export const make = (
  task: ChainPolicy.ChainTask,
  learningRate: number,
  fault: (request: number) => Answer | "lost" | undefined = () => undefined
): Effect.Effect<TrainerServer, never, Scope.Scope> => {
  let version = 0
  let policy = ChainPolicy.uniform(task)
  const done = new Map<string, unknown>()
  const requests: Array<string> = []
  const authorizations: Array<string | undefined> = []

  const update = ({ batch_id, rows, version: from }: Body): Answer => {
    const before = done.get(batch_id)
    if (before !== undefined) return { status: 200, body: before }
    if (from !== version) return { status: 409, body: { error: `at version ${version}` } }
    const odds = ChainPolicy.probabilities(policy)
    const logits = Float64Array.from(policy.logits)
    let [loss, squares] = [0, 0]
    const slopes = new Float64Array(logits.length)
    for (const { advantage, token_ids, weights } of rows) {
      for (const [at, weight] of weights.entries()) {
        // on_policy: the loss is -advantage, its derivative by the log-probability too.
        loss -= weight * advantage
        const [decision = -1, action = -1] = [(token_ids[at] ?? -1) - task.actions, token_ids[at + 1]]
        for (let other = 0; weight !== 0 && other < task.actions; other++) {
          const place = decision * task.actions + other
          const slope = -weight * advantage * ((other === action ? 1 : 0) - (odds[place] ?? 0))
          slopes[place] = (slopes[place] ?? 0) + slope
        }
      }
    }
    for (const [place, slope] of slopes.entries()) {
      squares += slope * slope
      logits[place] = (logits[place] ?? 0) - learningRate * slope
    }
    policy = { ...policy, logits }
    version += 1
    const body = { version, loss, gradient_norm: Math.sqrt(squares) }
    done.set(batch_id, body)
    return { status: 200, body }
  }

  const answer = (route: string, text: string): Answer => {
    if (route === "GET /v1/version") return { status: 200, body: { version } }
    const body: Body = JSON.parse(text)
    switch (route) {
      case "POST /v1/score": {
        const all = ChainPolicy.logProbabilities(policy)
        const rows = body.rows.map(({ id, token_ids }) => ({
          id,
          logprobs: Array.from(ChainPolicy.scoreTokens(policy, all, token_ids))
        }))
        return { status: 200, body: { rows } }
      }
      case "POST /v1/update":
        return update(body)
      case "POST /v1/publish":
        return body.version === version
          ? { status: 200, body: { version } }
          : { status: 409, body: { error: `at version ${version}` } }
      default:
        return { status: 404, body: { error: `no ${route}` } }
    }
  }

  const server = Http.createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const route = `${request.method} ${request.url}`
      const broken = fault(requests.length)
      requests.push(route)
      authorizations.push(request.headers.authorization)
      const text = Buffer.concat(chunks).toString()
      const { body, status } = broken === undefined || broken === "lost" ? answer(route, text) : broken
      if (broken === "lost") return void request.socket.destroy()
      response.writeHead(status, { "content-type": "application/json" })
      response.end(typeof body === "string" ? body : JSON.stringify(body))
    })
  })
  return Effect.acquireRelease(
    Effect.async<TrainerServer>((resume) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        const url = `http://127.0.0.1:${port}`
        resume(Effect.succeed({ url, requests, authorizations, version: () => version, policy: () => policy }))
      })
    }),
    () =>
      Effect.async<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )
}
