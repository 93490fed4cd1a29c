/** What a double of OpenSandbox answers for its sandboxes: execd's API, and the ports behind the proxy. */
import * as http from "node:http"
import { pipeline } from "node:stream"
import { runCommand } from "./openSandboxCommand.js"
import { download, upload } from "./openSandboxFiles.js"
import type { Service } from "./openSandboxState.js"
import { problem, send, stopped } from "./openSandboxWire.js"

const proxied = (request: http.IncomingMessage, response: http.ServerResponse, port: number, rest: string) => {
  const asked = http.request({
    host: "127.0.0.1",
    port,
    method: request.method ?? "GET",
    path: rest,
    headers: { ...request.headers, host: `127.0.0.1:${port}` },
    agent: false
  })
  asked.once("error", () => send(response, problem(502, "PROXY::BAD_GATEWAY", "nothing listens there"), undefined))
  asked.once("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    pipeline(answer, response, () => undefined)
  })
  request.pipe(asked)
}

export const onSandbox =
  (service: Service) =>
  async (request: http.IncomingMessage, response: http.ServerResponse): Promise<unknown> => {
    service.record("sandbox", request)
    const url = new URL(request.url ?? "/", "http://double")
    const [, id = "", plane = "", ...rest] = url.pathname.split("/").slice(1)
    const box = service.boxes.get(id)
    if (box === undefined || (box.state !== "Running" && box.state !== "Pausing")) {
      return send(response, problem(404, "ROUTE::NOT_FOUND", "no sandbox runs there"), undefined)
    }
    if (request.headers["x-route"] !== id) {
      return send(response, problem(403, "ROUTE::FORBIDDEN", "the route's header is missing"), undefined)
    }
    if (plane === "proxy") {
      return proxied(request, response, Number(rest[0]), `/${rest.slice(1).join("/")}${url.search}`)
    }
    if (request.headers["x-execd-access-token"] !== box.token) {
      return send(response, problem(401, "UNAUTHORIZED", "the token is missing or wrong"), undefined)
    }
    const command = box.commands.get(url.searchParams.get("id") ?? rest[2] ?? "")
    switch (`${request.method} /${rest.slice(0, 2).join("/")}`) {
      case "GET /ping": {
        const fault = service.take("ping")
        return (await stopped(response, fault)) ? undefined : send(response, { status: 200 }, fault)
      }
      case "POST /command":
        return runCommand(service, box, request, response, service.take("command"))
      case "DELETE /command": {
        const fault = service.take("interrupt")
        if (await stopped(response, fault)) {
          return undefined
        }
        if (command === undefined) {
          return send(response, problem(404, "NOT_FOUND", "there is no such command"), fault)
        }
        service.signal(command, "SIGKILL")
        return send(response, { status: 200 }, fault)
      }
      case "GET /command/status": {
        const fault = service.take("status")
        if (await stopped(response, fault)) {
          return undefined
        }
        return command === undefined
          ? send(response, problem(404, "NOT_FOUND", "there is no such command"), fault)
          : send(
              response,
              { status: 200, body: { running: command.running, exit_code: command.exitCode, error: command.error } },
              fault
            )
      }
      case "POST /files/upload":
        return upload(service, box, request, response, service.take("upload"))
      case "GET /files/download":
        return download(service, box, url.searchParams.get("path") ?? "", response, service.take("download"))
      default:
        return send(response, problem(404, "NOT_FOUND", `there is no ${request.method} ${url.pathname}`), undefined)
    }
  }
