// /metrics, /livez and /readyz on the address that the settings name. In: what each says. Out: text. Whoever reaches the address may
// ask: nothing is changed by it, and nothing secret said.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { MetricsAddress } from "../config.ts";
import type { Logger } from "./log.ts";

export interface Answers {
  /** Undefined while all is well, else why not. */
  readonly stuck: () => string | undefined;
  readonly notReady: () => string | undefined;
  readonly metrics: () => Promise<string>;
  readonly contentType: string;
}

/** The port may still be a former agent's, and the address may come later. */
const RETRY_MS = 1_000;
/** Who asks more at a time is no scraper. */
const MOST_CONNECTIONS = 64;

export function serveHttp(
  { host, port }: MetricsAddress,
  log: Pick<Logger, "info" | "warn">,
  answers: Answers,
): { close(): void } {
  const server = createServer({ headersTimeout: 5_000, requestTimeout: 10_000 }, (request, response) => {
    void answer(request, response, answers);
  });
  server.maxConnections = MOST_CONNECTIONS;
  let said: string | undefined;
  let retry: NodeJS.Timeout | undefined;
  const listen = () => server.listen({ host, port });
  server.on("listening", () => {
    said = undefined;
    log.info({ address: host, port }, "metricsServed");
  });
  // No reason to end: the node's egress IPs matter more than who watches them.
  server.on("error", ({ message }) => {
    if (message !== said) log.warn({ address: host, port, error: message }, "metricsNotServed");
    said = message;
    retry = setTimeout(listen, RETRY_MS).unref();
  });
  listen();
  return {
    close: () => {
      clearTimeout(retry);
      server.close();
      server.closeAllConnections();
    },
  };
}

async function answer(request: IncomingMessage, response: ServerResponse, answers: Answers): Promise<void> {
  const say = (status: number, body: string, type = "text/plain; charset=utf-8") => {
    response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body) });
    response.end(request.method === "HEAD" ? undefined : body);
  };
  const well = (why: string | undefined) => (why === undefined ? say(200, "ok\n") : say(503, `${why}\n`));
  if (request.method !== "GET" && request.method !== "HEAD") return say(405, "only GET\n");
  try {
    switch (request.url?.split("?")[0]) {
      case "/livez":
        return well(answers.stuck());
      case "/readyz":
        return well(answers.notReady());
      case "/metrics":
        return say(200, await answers.metrics(), answers.contentType);
      default:
        return say(404, "there are /metrics, /livez and /readyz\n");
    }
  } catch (error) {
    say(500, `${String(error)}\n`);
  }
}
