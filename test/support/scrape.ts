// Scrapes an agent as Prometheus and kubelet do, inside its namespace. In: where commands run, an address. Out: series by their text.
// As a script it prints status and body: `node test/support/scrape.ts URL`.
import { request } from "node:http";
import { fileURLToPath } from "node:url";
import type { Run } from "../../lib/exec/index.ts";

const script = fileURLToPath(import.meta.url);

export interface Scrape {
  readonly status: number;
  readonly body: string;
}

export class Scraper {
  readonly #exec: Run;
  readonly #address: string;

  /** `address` as the setting has it, with a port. */
  constructor(exec: Run, address: string) {
    this.#exec = exec;
    this.#address = address;
  }

  /** Status 0: nobody answers. */
  async ask(path: string): Promise<Scrape> {
    const { stdout } = await this.#exec(process.execPath, [script, `http://${this.#address}${path}`]);
    const end = stdout.indexOf("\n");
    return { status: Number(stdout.slice(0, end)), body: stdout.slice(end + 1) };
  }

  async metrics(): Promise<Series> {
    const { status, body } = await this.ask("/metrics");
    if (status !== 200) throw new Error(`/metrics: ${status} ${body}`);
    return new Series(body);
  }
}

export class Series {
  readonly text: string;
  readonly #values = new Map<string, number>();

  constructor(text: string) {
    this.text = text;
    for (const line of text.split("\n")) {
      const [, name, value] = /^([^#\s]\S*?(?:\{.*\})?) (\S+)$/.exec(line) ?? [];
      if (name !== undefined) this.#values.set(name.replace(/^egressip_agent_/, ""), Number(value));
    }
  }

  /** `rivals`, `owned_objects{kind="rule"}`, without the prefix; undefined where it is not there. */
  get(series: string): number | undefined {
    return this.#values.get(series);
  }

  /** Names of all series of one metric. */
  of(metric: string): readonly string[] {
    return [...this.#values.keys()].filter((name) => name === metric || name.startsWith(`${metric}{`));
  }
}

if (process.argv[1] === script) {
  const call = request(process.argv[2] ?? "", { agent: false, timeout: 5_000 }, (response) => {
    let body = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => {
      body += chunk;
    });
    response.on("end", () => process.stdout.write(`${response.statusCode}\n${body}`));
  });
  call.on("timeout", () => call.destroy(new Error("no answer")));
  call.on("error", (error) => process.stdout.write(`0\n${error.message}`));
  call.end();
}
