/**
 * The program of the thread that reads a PDF. It is text because a thread starts from a file of JavaScript or from text,
 * and a package that runs from its sources has no such file.
 *
 * It gets `{ pdfjs, cmaps, fonts, bytes, wanted, limits }` and posts `{ pages }`, `{ text }` for each page, `{ image }` for
 * each picture, then `{ done }`, or `{ refused: { kind, reason } }`.
 */
export const program = String.raw`
const { parentPort, workerData } = require("node:worker_threads")
const { bytes, cmaps, fonts, limits, pdfjs, wanted } = workerData

// A stream of some megabytes can unpack to any size, and no limit of a thread's heap counts such buffers.
let exceeded = false
const Bytes = globalThis.Uint8Array
globalThis.Uint8Array = new Proxy(Bytes, {
  construct(target, args, newTarget) {
    if (typeof args[0] === "number" && args[0] > limits.bufferBytes) {
      exceeded = true
      throw new RangeError("a part of the document unpacks to more than " + limits.bufferBytes + " bytes")
    }
    return Reflect.construct(target, args, newTarget === globalThis.Uint8Array ? target : newTarget)
  }
})

class Refusal extends Error {}

const read = async () => {
  const { getDocument, OPS } = await import(pdfjs)
  const task = getDocument({
    data: new Bytes(bytes),
    verbosity: 0,
    isEvalSupported: false,
    enableXfa: false,
    disableFontFace: true,
    useSystemFonts: false,
    isOffscreenCanvasSupported: false,
    isImageDecoderSupported: false,
    cMapUrl: cmaps,
    cMapPacked: true,
    standardFontDataUrl: fonts
  })
  const document = await task.promise
  if (document.numPages > limits.pages) {
    throw new Refusal("the document says that it has " + document.numPages + " pages, and " + limits.pages + " is the most that is read")
  }
  parentPort.postMessage({ pages: document.numPages })
  let characters = 0
  let pixels = 0
  for (let number = 1; number <= document.numPages; number++) {
    // Each page is looked for, because the number of pages is what the document says of itself.
    const page = await document.getPage(number)
    if (wanted === "pages") continue
    if (wanted === "text") {
      const { items } = await page.getTextContent()
      const text = items.map((item) => (item.str ?? "") + (item.hasEOL ? "\n" : "")).join("")
      characters += text.length
      if (characters > limits.characters) throw new Refusal("the document has more than " + limits.characters + " characters")
      parentPort.postMessage({ text })
    } else {
      const operators = await page.getOperatorList()
      const seen = new Set()
      for (let i = 0; i < operators.fnArray.length; i++) {
        const kind = operators.fnArray[i]
        if (kind !== OPS.paintImageXObject && kind !== OPS.paintImageXObjectRepeat) continue
        const id = operators.argsArray[i][0]
        if (seen.has(id)) continue
        seen.add(id)
        const objects = id.startsWith("g_") ? page.commonObjs : page.objs
        const image = await new Promise((resolve) => objects.get(id, resolve))
        if (!image || !image.data) continue
        pixels += image.width * image.height
        if (pixels > limits.pixels) throw new Refusal("the document's pictures have more than " + limits.pixels + " pixels")
        parentPort.postMessage({ image: { width: image.width, height: image.height, kind: image.kind, data: image.data } })
      }
    }
    page.cleanup()
    if (exceeded) break
  }
  await task.destroy()
}

const refuse = (kind, error) => parentPort.postMessage({ refused: { kind, reason: String(error?.message ?? error) } })
read().then(
  () => (exceeded ? refuse("Undecidable", "a part of the document unpacks to more than " + limits.bufferBytes + " bytes") : parentPort.postMessage({ done: true })),
  (error) => refuse(exceeded || error instanceof Refusal ? "Undecidable" : "Unparsable", error)
)
`
