// Certificates for a cluster: an authority, the server's certificate, an administrator's, and the key of service-account tokens.
// In: a folder, and an openssl. Out: files in it; `issueServer` with another authority is the rotation that clients have to notice.
import { execFile } from "node:child_process";
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { destinations, outside } from "../lab/topology.ts";

const exec = promisify(execFile);

/** Everywhere that clients may reach the server at, the fault proxy's addresses in a lab among them. */
const { ext } = outside;
const { api } = destinations;
const addresses = ["127.0.0.1", "::1", api[4], api[6], ext.server[4], ext.server[6]];
const names = ["DNS:localhost", "DNS:kubernetes.default.svc", ...addresses.map((one) => `IP:${one}`)].join(
  ",",
);

export class Authority {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  file(name: string): string {
    return join(this.#folder, name);
  }

  /** NAME.crt and NAME.key. */
  async makeAuthority(name: string): Promise<void> {
    await this.#openssl(
      ...["req", "-x509", ...newKey, "-days", "2", "-subj", `/CN=${name}`],
      ...["-addext", "keyUsage=critical,keyCertSign,cRLSign"],
      ...["-keyout", `${name}.key`, "-out", `${name}.crt`],
    );
  }

  /** server.crt and server.key, each replaced whole. */
  async issueServer(authority: string): Promise<void> {
    await this.#issue("server.new", authority, "/CN=kube-apiserver", [
      "extendedKeyUsage=serverAuth",
      `subjectAltName=${names}`,
    ]);
    for (const ending of ["key", "crt"])
      await rename(this.file(`server.new.${ending}`), this.file(`server.${ending}`));
  }

  /** NAME.crt and NAME.key for a client: O is its group, CN its name. */
  async issueClient(name: string, subject: string, authority: string): Promise<void> {
    await this.#issue(name, authority, subject, ["extendedKeyUsage=clientAuth"]);
  }

  /** sa.key and sa.pub, for service-account tokens. */
  async makeTokenKey(): Promise<void> {
    await this.#openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "sa.key");
    await this.#openssl("pkey", "-in", "sa.key", "-pubout", "-out", "sa.pub");
  }

  async #issue(name: string, authority: string, subject: string, extensions: readonly string[]) {
    await writeFile(
      this.file(`${name}.ext`),
      ["keyUsage=critical,digitalSignature", ...extensions].join("\n"),
    );
    await this.#openssl(
      ...["req", ...newKey, "-subj", subject, "-keyout", `${name}.key`, "-out", `${name}.csr`],
    );
    await this.#openssl(
      ...["x509", "-req", "-in", `${name}.csr`, "-CA", `${authority}.crt`, "-CAkey", `${authority}.key`],
      ...["-CAcreateserial", "-days", "2", "-extfile", `${name}.ext`, "-out", `${name}.crt`],
    );
  }

  async #openssl(...args: readonly string[]): Promise<void> {
    await exec("openssl", args, { cwd: this.#folder });
  }
}

const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
