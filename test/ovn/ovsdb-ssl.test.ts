// Certificates: a real server that asks for them, a CA that is made for the test, and files that are replaced meanwhile.
import { execFile } from "node:child_process";
import { rename, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  ConnectionError,
  insert,
  type Session,
  type SessionOptions,
  TlsFilesError,
} from "../../lib/ovsdb-client/index.ts";
import { type Folder, openFolder, openSession, type RealServer } from "../lib/ovsdb-client/real-server.ts";
import { Cage } from "../lib/ovsdb-client/zoo.ts";
import { noOvn } from "../support/ovn-programs.ts";
import { until } from "../support/until.ts";

const missing = noOvn();
const exec = promisify(execFile);

describe.skipIf(missing !== undefined)(`ssl${missing === undefined ? "" : `: ${missing}`}`, () => {
  let folder: Folder;
  let server: RealServer;
  let endpoint: string;

  const openssl = (...args: readonly string[]) => exec("openssl", args, { cwd: folder.path });
  const makeAuthority = (name: string) =>
    openssl(
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:P-256",
      "-nodes",
      "-days",
      "2",
      "-subj",
      `/CN=${name}`,
      "-keyout",
      `${name}.key`,
      "-out",
      `${name}.pem`,
    );
  const makeCertificate = async (name: string, authority: string) => {
    await openssl(
      "req",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:P-256",
      "-nodes",
      "-subj",
      `/CN=${name}`,
      "-keyout",
      `${name}.key`,
      "-out",
      `${name}.csr`,
    );
    await openssl(
      "x509",
      "-req",
      "-in",
      `${name}.csr`,
      "-CA",
      `${authority}.pem`,
      "-CAkey",
      `${authority}.key`,
      "-CAcreateserial",
      "-days",
      "2",
      "-out",
      `${name}.crt`,
    );
  };
  const files = (name: string, authority = "ca"): NonNullable<SessionOptions["tls"]> => ({
    keyFile: folder.at(`${name}.key`),
    certFile: folder.at(`${name}.crt`),
    caFile: folder.at(`${authority}.pem`),
    checkMs: 20,
  });
  const open = (tls: NonNullable<SessionOptions["tls"]>): Session =>
    openSession(server, { endpoints: endpoint, tables: [Cage], tls });

  beforeAll(async () => {
    folder = await openFolder();
    await makeAuthority("ca");
    await makeAuthority("other-ca");
    for (const name of ["server", "client", "next"]) await makeCertificate(name, "ca");
    await makeCertificate("stranger", "other-ca");
    server = await folder.server("ssl", {
      args: [
        "--remote=pssl:0:127.0.0.1",
        `--private-key=${folder.at("server.key")}`,
        `--certificate=${folder.at("server.crt")}`,
        `--ca-cert=${folder.at("ca.pem")}`,
      ],
    });
    const port = await until(
      async () => /listening on port (\d+)/.exec(await server.log())?.[1],
      "a port",
      20_000,
    );
    endpoint = `ssl:127.0.0.1:${port}`;
  });
  afterAll(async () => {
    await folder[Symbol.asyncDispose]();
  });

  it("is spoken to a server that the CA signed, which its name does not say", async () => {
    const session = open(files("client"));
    await session.whenCurrent(20_000);
    await session.transact([insert(Cage, { name: "over ssl" })]);
    expect([session.endpoint, session.replica.table(Cage).rows.size]).toEqual([endpoint, 1]);
    await session.close();
  });

  it.each([
    ["a server of another CA", "client", "other-ca"],
    ["with a certificate that the server does not know", "stranger", "ca"],
  ])("is refused: %s", async (_, name, authority) => {
    const session = open(files(name, authority));
    const states: string[] = [];
    session.onState((state) => states.push(state));
    await until(() => session.failure !== undefined, "a failure", 20_000);
    expect(session.failure).toBeInstanceOf(ConnectionError);
    expect(states).not.toContain("current");
    await session.close();
  });

  it("is not tried with files that are not there, or not of one another, and goes on when they are", async () => {
    const tls = files("late");
    const session = open(tls);
    await until(() => session.failure !== undefined, "a failure", 20_000);
    expect(session.failure).toBeInstanceOf(TlsFilesError);
    await exec("cp", [folder.at("client.crt"), tls.certFile]);
    await exec("cp", [folder.at("next.key"), tls.keyFile]);
    await until(
      () => session.failure?.message.includes("mismatch"),
      "a key that is not the certificate's",
      20_000,
    );
    await exec("cp", [folder.at("client.key"), tls.keyFile]);
    await session.whenCurrent(20_000);
    expect(session.failure).toBeUndefined();
    await session.close();
  });

  it("takes new files into use at once, but not half of them", async () => {
    const tls = files("rotating");
    for (const kind of ["key", "crt"])
      await exec("cp", [folder.at(`client.${kind}`), folder.at(`rotating.${kind}`)]);
    const session = open(tls);
    const told: string[] = [];
    session.onState((state, failure) =>
      told.push(failure === undefined ? state : `${state}: ${failure.message}`),
    );
    await session.whenCurrent(20_000);
    const replace = async (from: string, to: string) => {
      await exec("cp", [folder.at(from), folder.at("tmp")]);
      await rename(folder.at("tmp"), to);
    };
    // Half: looked at many times, and left alone.
    await replace("next.crt", tls.certFile);
    for (let n = 0; n < 20; n++) await session.caughtUp();
    expect(told).toEqual(["syncing", "current"]);
    await replace("next.key", tls.keyFile);
    await until(() => told.filter((text) => text === "current").length === 2, "the new connection", 20_000);
    expect(told).toContain("stale: the certificate files are new");
    expect([session.endpoint, session.replica.table(Cage).rows.size]).toEqual([endpoint, 1]);
    // What cannot be used keeps nobody from going on with what is in use.
    await writeFile(tls.keyFile, "nonsense");
    await session.transact([insert(Cage, { name: "still here" })]);
    expect(session.state).toBe("current");
    await session.close();
  });
});
