// Certificate and key of a server, from two files that are looked at while it runs. In: file names. Out: what gRPC's server follows.
// A pair that cannot be used, half of a rotation for one, is not taken: the one before it goes on.
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import type { experimental } from "@grpc/grpc-js";

export interface IdentityFiles {
  readonly certificateFile: string;
  readonly keyFile: string;
  /** How often they are looked at, in milliseconds. A minute by default. */
  readonly checkMs?: number;
}

export interface Identity extends experimental.CertificateProvider {
  close(): void;
}

interface Pair {
  readonly certificate: Buffer;
  readonly privateKey: Buffer;
}

type Listener = Parameters<experimental.CertificateProvider["addIdentityCertificateListener"]>[0];

export function followIdentity(
  files: IdentityFiles,
  onFailure: (error: Error | undefined) => void,
): Identity {
  const listeners = new Set<Listener>();
  let pair: Pair | undefined;
  const look = async (): Promise<void> => {
    try {
      const found = await readPair(files);
      if (pair === undefined || !isSame(pair, found)) {
        pair = found;
        for (const listener of listeners) listener(found);
      }
      onFailure(undefined);
    } catch (error) {
      onFailure(error as Error);
    }
  };
  void look();
  const timer = setInterval(() => void look(), files.checkMs ?? 60_000).unref();
  return {
    addIdentityCertificateListener: (listener) => {
      listeners.add(listener);
      if (pair !== undefined) listener(pair);
    },
    removeIdentityCertificateListener: (listener) => void listeners.delete(listener),
    addCaCertificateListener: () => {},
    removeCaCertificateListener: () => {},
    close: () => clearInterval(timer),
  };
}

async function readPair({ certificateFile, keyFile }: IdentityFiles): Promise<Pair> {
  const [certificate, privateKey] = await Promise.all([readFile(certificateFile), readFile(keyFile)]);
  try {
    createSecureContext({ cert: certificate, key: privateKey });
  } catch (cause) {
    throw new Error(`${certificateFile} and ${keyFile}: ${(cause as Error).message}`, { cause });
  }
  return { certificate, privateKey };
}

const isSame = (a: Pair, b: Pair): boolean =>
  a.certificate.equals(b.certificate) && a.privateKey.equals(b.privateKey);
