/**
 * What the gateway itself answers when nothing of the upstream's can be passed on.
 */
import * as Schema from "effect/Schema"

/** The wires that the gateway speaks. */
export const Dialect = Schema.Literal("chat", "responses", "messages")

export type Dialect = typeof Dialect.Type

/**
 * A request that gets no answer of the upstream's: `code` says why to a program, `detail` to a person.
 */
export class Refusal extends Schema.TaggedError<Refusal>("deskhand/GatewayRefusal")("GatewayRefusal", {
  status: Schema.Int,
  code: Schema.Literal(
    "unknown_route",
    "method_not_allowed",
    "invalid_rollout_id",
    "no_token_capture",
    "unauthorised",
    "request_too_large",
    "invalid_request",
    "unsupported_by_bridge",
    "unsupported_dialect",
    "upstream_unreachable",
    "upstream_timeout",
    "upstream_broke",
    "upstream_malformed",
    "upstream_too_large",
    "gateway_bug"
  ),
  detail: Schema.String
}) {
  override get message() {
    return this.detail
  }
}

/** Says that an answer is the gateway's own; no upstream sends it. */
export const refusalHeader = "x-deskhand-gateway-error"

const anthropicType = (status: number): string => {
  if (status === 401) return "authentication_error"
  if (status === 404 || status === 405) return "not_found_error"
  if (status === 413) return "request_too_large"
  if (status === 504) return "timeout_error"
  return status >= 500 ? "api_error" : "invalid_request_error"
}

/** The error as clients of a dialect read it. */
export const refusalBody = (dialect: Dialect, { code, detail, status }: Refusal): Readonly<Record<string, unknown>> =>
  dialect === "messages"
    ? { type: "error", error: { type: anthropicType(status), message: detail } }
    : {
        error: {
          message: detail,
          type: status >= 500 ? "server_error" : "invalid_request_error",
          param: null,
          code
        }
      }
