// Key, certificate and CA of an `ssl:` endpoint: read at every new connection, and looked at while it lasts.
// In: names of PEM files. Out: their contents, or TlsFilesError for what cannot be used.
import { readFile } from "node:fs/promises";
import type { Clock } from "./clock.ts";
import { TlsFilesError } from "./errors.ts";

export interface TlsFiles {
  readonly keyFile: string;
  readonly certFile: string;
  /** Only servers whose certificate it signed are talked to. As with OVS's own clients, names are not compared. */
  readonly caFile: string;
  /** How often the files are looked at, in milliseconds. 10 000 by default. */
  readonly checkMs?: number;
}

export interface TlsMaterial {
  readonly key: Buffer;
  readonly cert: Buffer;
  readonly ca: Buffer;
}

/** Throws TlsFilesError, also for a key that is not the certificate's: half of a rotation. */
export async function readTlsFiles(files: TlsFiles): Promise<TlsMaterial> {
  try {
    const [key, cert, ca] = await Promise.all(
      [files.keyFile, files.certFile, files.caFile].map((file) => readFile(file)),
    );
    const material = { key, cert, ca } as TlsMaterial;
    process.getBuiltinModule("node:tls").createSecureContext({ ...material });
    return material;
  } catch (cause) {
    throw new TlsFilesError(`${files.certFile}: ${(cause as Error).message}`, cause);
  }
}

/** Calls once, when the files hold something else that can be used. Returns what ends it. */
export function watchTlsFiles(
  files: TlsFiles,
  used: TlsMaterial,
  clock: Clock,
  changed: () => void,
): () => void {
  let cancel = (): void => {};
  let over = false;
  const look = async (): Promise<void> => {
    const found = await readTlsFiles(files).catch(() => undefined);
    if (over) return;
    if (found === undefined || isSame(found, used)) next();
    else changed();
  };
  const next = (): void => {
    cancel = clock.after(files.checkMs ?? 10_000, () => void look());
  };
  next();
  return () => {
    over = true;
    cancel();
  };
}

const isSame = (a: TlsMaterial, b: TlsMaterial): boolean =>
  a.key.equals(b.key) && a.cert.equals(b.cert) && a.ca.equals(b.ca);
