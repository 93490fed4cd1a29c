/**
 * The program of the guest server.
 *
 * @since 0.1.0
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Layer from "effect/Layer"
import * as Server from "./Server.js"

NodeRuntime.runMain(Layer.launch(Server.layer(Server.optionsFromEnv(process.env))))
