// The debug socket: HTTP on a unix socket that only root may open. In: an answer function for questions, one for orders. Out: JSON.
import { chmod, mkdir, rm } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { dirname } from "node:path";

/** For a path and its query; undefined where there is nothing of that name. */
type Answer = (path: string, query: URLSearchParams) => unknown;

/** Throws an Error when another process answers there: two agents on one host would undo each other. */
export async function serveDebug(
  path: string,
  answer: Answer,
  /** Asked with POST: what changes something must not happen because somebody looks. */
  order: Answer = () => undefined,
): Promise<{ close(): void }> {
  await mkdir(dirname(path), { recursive: true, mode: 0o755 });
  if (await isAnswered(path)) throw new Error(`${path}: another egressip-agent is running on this host`);
  await rm(path, { force: true });
  const server = createServer((request, response) => {
    void answerTo(request, { GET: answer, POST: order }).then(({ status, body }) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(`${JSON.stringify(body)}\n`);
    });
  });
  // Born with the umask's mode: without this there is a moment in which anybody could connect.
  const umask = process.umask(0o177);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(path, resolve);
    });
  } finally {
    process.umask(umask);
  }
  await chmod(path, 0o600);
  return { close: () => void server.close() };
}

/** A question that cannot be answered must not end the agent. */
async function answerTo(
  { method = "", url: asked = "/" }: IncomingMessage,
  answers: Readonly<Record<string, Answer>>,
): Promise<{ readonly status: number; readonly body: unknown }> {
  try {
    const url = new URL(asked, "http://agent");
    const answer = Object.hasOwn(answers, method) ? answers[method] : undefined;
    const found = await answer?.(url.pathname, url.searchParams);
    if (found === undefined) return { status: 404, body: { error: `nothing at ${url.pathname}` } };
    return { status: 200, body: found };
  } catch (error) {
    return { status: 500, body: { error: String(error) } };
  }
}

/** Whether somebody listens there. */
export function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
