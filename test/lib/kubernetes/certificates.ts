// Certificates for tests, made as they are needed: a CA, and what it signs for a server on loopback and for clients. X.509 (RFC
// 5280) in the few forms that TLS asks for, with elliptic keys; so no program is needed, and no key lies in the tree.
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";

export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

export interface Authority extends Certificate {
  /** For 127.0.0.1 and localhost. */
  server(): Certificate;
  client(name: string): Certificate;
}

const der = (tag: number, ...parts: readonly Uint8Array[]): Buffer => {
  const content = Buffer.concat(parts);
  const size = content.length;
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
};
const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);
/** An object identifier, in hexadecimal. */
const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, "hex"));
const bits = (bytes: Uint8Array): Buffer => der(0x03, Buffer.from([0]), bytes);

const ECDSA_WITH_SHA256 = sequence(oid("2a8648ce3d040302"));
const COMMON_NAME = "550403";
const BASIC_CONSTRAINTS = "551d13";
const SUBJECT_ALT_NAME = "551d11";

const nameOf = (text: string): Buffer =>
  sequence(der(0x31, sequence(oid(COMMON_NAME), der(0x0c, Buffer.from(text)))));
const extension = (id: string, value: Uint8Array): Buffer => sequence(oid(id), der(0x04, value));
const validity = sequence(der(0x17, Buffer.from("200101000000Z")), der(0x18, Buffer.from("21200101000000Z")));

let serial = 0;

interface Names {
  readonly subject: string;
  readonly issuer: string;
  readonly extensions: readonly Buffer[];
}

function issued({ subject, issuer, extensions }: Names, signer?: KeyObject) {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const content = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1, ++serial & 0x7f])),
    ECDSA_WITH_SHA256,
    nameOf(issuer),
    validity,
    nameOf(subject),
    publicKey.export({ type: "spki", format: "der" }),
    ...(extensions.length === 0 ? [] : [der(0xa3, sequence(...extensions))]),
  );
  const signature = sign("sha256", content, signer ?? privateKey);
  const lines = sequence(content, ECDSA_WITH_SHA256, bits(signature))
    .toString("base64")
    .match(/.{1,64}/g);
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines?.join("\n")}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    privateKey,
  };
}

export function authority(issuer: string): Authority {
  const isCa = extension(BASIC_CONSTRAINTS, sequence(der(0x01, Buffer.from([0xff]))));
  const { cert, key, privateKey } = issued({ subject: issuer, issuer, extensions: [isCa] });
  const names = sequence(der(0x87, Buffer.from([127, 0, 0, 1])), der(0x82, Buffer.from("localhost")));
  return {
    cert,
    key,
    server: () =>
      issued({ subject: "server", issuer, extensions: [extension(SUBJECT_ALT_NAME, names)] }, privateKey),
    client: (subject) => issued({ subject, issuer, extensions: [] }, privateKey),
  };
}
