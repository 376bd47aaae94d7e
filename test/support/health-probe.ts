// Asks for a node's health as OVN-Kubernetes' cluster manager does: dials within a deadline, then one Check on the connection.
// In: an address, a port, for TLS the CA and the name that it compares. Out: SERVING, NOT_SERVING, or the name of gRPC's error.
// As a script it prints that: `node test/support/health-probe.ts ADDRESS PORT [SERVICE]`, for a test to ask inside a namespace.
import { readFileSync } from "node:fs";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";

export interface Asked {
  readonly address: string;
  readonly port: number;
  readonly service?: string;
  readonly method?: string;
  readonly tls?: { readonly caFile: string; readonly name: string };
}

/** A connection that stays open, for more than one question. */
export class Prober implements Disposable {
  readonly #client: Client;

  constructor({ address, port, tls }: Asked) {
    const target = address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
    this.#client = new Client(
      target,
      tls === undefined ? credentials.createInsecure() : credentials.createSsl(readFileSync(tls.caFile)),
      {
        "grpc.enable_http_proxy": 0,
        ...(tls === undefined ? {} : { "grpc.ssl_target_name_override": tls.name }),
      },
    );
  }

  ask(service = "Service_Egress_IP", method = "Check", deadlineMs = 5_000): Promise<string> {
    const text = Buffer.from(service);
    const request = text.length === 0 ? text : Buffer.concat([Buffer.from([0x0a, text.length]), text]);
    return new Promise((resolve) => {
      this.#client.makeUnaryRequest(
        `/grpc.health.v1.Health/${method}`,
        (bytes: Buffer) => bytes,
        (bytes) => bytes,
        request,
        { deadline: Date.now() + deadlineMs },
        (error: ServiceError | null, answer?: Buffer) => {
          if (error !== null) resolve(status[error.code] ?? String(error));
          else
            resolve(
              { "0801": "SERVING", "0802": "NOT_SERVING" }[answer?.toString("hex") ?? ""] ?? "unreadable",
            );
        },
      );
    });
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}

export async function probe(asked: Asked): Promise<string> {
  using prober = new Prober(asked);
  return await prober.ask(asked.service, asked.method);
}

if (import.meta.main) {
  const [address = "", port, service] = process.argv.slice(2);
  console.log(await probe({ address, port: Number(port), ...(service === undefined ? {} : { service }) }));
}
