/** Messages of the model whose calls are not to be answered any more. */
import { type AssistantMessage, assistant, text } from "../../model/Conversation.js"

type Part = AssistantMessage["content"][number]

export const isCall = ({ _tag }: Part): boolean => _tag === "ToolCallPart" || _tag === "ComputerCallPart"

const said = (part: Part): ReadonlyArray<string> => {
  switch (part._tag) {
    case "TextPart":
      return [part.text]
    case "ToolCallPart":
      return [`${part.name}(${part.arguments})`]
    case "ComputerCallPart":
      return part.actions.map((action) => JSON.stringify(action))
    // A seal is of no use apart from the call that it belongs to.
    case "ReasoningPart":
      return []
  }
}

/**
 * What a message says, its calls too, as text: servers refuse calls that nobody has answered. Nothing where it says
 * nothing; the message itself where it calls nothing.
 */
export const inWords = (message: AssistantMessage): ReadonlyArray<AssistantMessage> => {
  if (!message.content.some(isCall)) return message.content.length === 0 ? [] : [message]
  const lines = message.content.flatMap(said).filter((line) => line.trim() !== "")
  return lines.length === 0 ? [] : [assistant(text(lines.join("\n")))]
}
