// A way to a real server that knows less than it does: requests by methods it is not to know get there by another name, and
// the server itself says "unknown method". In: a dial, the methods. Out: a dial, and what came and went over it.
import { Duplex } from "node:stream";
import { type Dial, dial } from "../../../lib/ovsdb-client/index.ts";

export interface Tap {
  readonly dial: Dial;
  /** Each message that was sent. */
  readonly sent: string[];
  /** Whatever pieces came. */
  readonly received: string[];
}

export function tap(without: readonly string[] = []): Tap {
  const [sent, received]: [string[], string[]] = [[], []];
  return {
    sent,
    received,
    dial: async (endpoint, options) => {
      const stream = await dial(endpoint, options);
      const outer = new Duplex({
        read: () => void stream.resume(),
        // One message for each write.
        write: (chunk: Buffer, _encoding, done) => {
          const text = chunk.toString();
          sent.push(text);
          const hidden = without.find((method) => text.includes(`"method":"${method}"`));
          stream.write(hidden === undefined ? text : text.replace(hidden, `no_${hidden}`), done);
        },
        destroy: (error, done) => {
          stream.destroy();
          done(error);
        },
      });
      stream.on("data", (chunk: Buffer) => {
        received.push(chunk.toString("latin1"));
        outer.push(chunk);
      });
      stream.on("close", () => outer.destroy());
      return outer;
    },
  };
}
