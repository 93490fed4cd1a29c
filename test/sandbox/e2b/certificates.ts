/** Certificates for the tests of TLS, made by hand (X.509, RFC 5280), so that no machine needs a program for it. */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto"

const der = (tag: number, ...content: ReadonlyArray<Uint8Array>): Buffer => {
  const body = Buffer.concat(content)
  const size: Array<number> = []
  for (let rest = body.length; rest > 0; rest >>>= 8) size.unshift(rest & 0xff)
  const length = body.length < 0x80 ? [body.length] : [0x80 | size.length, ...size]
  return Buffer.concat([Buffer.from([tag, ...length]), body])
}

const sequence = (...content: ReadonlyArray<Uint8Array>) => der(0x30, ...content)
const octets = (content: Uint8Array) => der(0x04, content)
const oid = (hex: string) => der(0x06, Buffer.from(hex, "hex"))
const yes = der(0x01, Buffer.from([0xff]))

/** ecdsa-with-SHA256 */
const algorithm = sequence(oid("2a8648ce3d040302"))

const name = (common: string) => sequence(der(0x31, sequence(oid("550403"), der(0x0c, Buffer.from(common)))))

const utc = (time: number) =>
  der(0x17, Buffer.from(`${new Date(time).toISOString().replaceAll(/[-:T]/g, "").slice(2, 14)}Z`))

const day = 24 * 60 * 60 * 1000

interface Issuer {
  readonly common: string
  readonly privateKey: KeyObject
}

const issued = (by: Issuer, common: string, publicKey: KeyObject, extension: Buffer): string => {
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    // Neither negative nor with a byte too many in front.
    der(0x02, Buffer.concat([Buffer.from([0x40]), randomBytes(8)])),
    algorithm,
    name(by.common),
    sequence(utc(Date.now() - day), utc(Date.now() + day)),
    name(common),
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(extension))
  )
  const signature = der(0x03, Buffer.from([0]), sign("sha256", body, by.privateKey))
  const lines = sequence(body, algorithm, signature).toString("base64").replaceAll(/.{64}/g, "$&\n").trim()
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`
}

/** An authority of a test's own, which signs for hosts: names, with or without a wildcard, and 127.0.0.1. */
export const authority = (common: string) => {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
  const self = { common, privateKey }
  return {
    certificate: issued(self, common, publicKey, sequence(oid("551d13"), yes, octets(sequence(yes)))),
    host: (...names: ReadonlyArray<string>) => {
      const keys = generateKeyPairSync("ec", { namedCurve: "P-256" })
      const alternatives = sequence(
        ...names.map((each) => der(0x82, Buffer.from(each))),
        der(0x87, Buffer.from([127, 0, 0, 1]))
      )
      return {
        certificate: issued(self, `${common} host`, keys.publicKey, sequence(oid("551d11"), octets(alternatives))),
        key: keys.privateKey.export({ type: "pkcs8", format: "pem" }).toString()
      }
    }
  }
}
