// Before this node answers for an address that it gains: does anybody else still? The one who gives it up may be slower than we
// are, and two who answer for one address would be believed in turn (known-faults BL-40). In: targets. Out: nobody answers any more.
import { type Answer, type Prober, type ProbeTarget, SendError } from "../../lib/frames/index.ts";

export interface Gaining {
  /**
   * Resolves when nobody answers for these any more, at once for none; or when patience has ended: the assignment says that they
   * are this node's, whoever still answers is reported. Never rejects.
   */
  released(targets: readonly ProbeTarget[]): Promise<void>;
}

export interface GainingReports {
  /** They answered to the end, and their addresses were taken all the same. */
  readonly answered: (answers: readonly Answer[]) => void;
  /** It could not be asked, or not on every link: what was not is taken for free. */
  readonly failed: (error: unknown) => void;
}

/** Milliseconds to listen each time: an answer comes from a kernel, at once. A first start waits for this beside its other work. */
const LISTEN_MS = 30;

/** Milliseconds from the first question: longer would be an outage of its own. */
const PATIENCE_MS = 1000;

export function createGaining(
  prober: Prober,
  { answered, failed }: GainingReports,
  clock: () => number = () => performance.now(),
): Gaining {
  const answersFor = (targets: readonly ProbeTarget[]) =>
    prober.probe(targets, LISTEN_MS).catch((error: unknown): readonly Answer[] => {
      failed(error);
      return error instanceof SendError ? error.answers : [];
    });
  return {
    released: async (targets) => {
      const end = clock() + PATIENCE_MS;
      let open = targets;
      while (open.length > 0) {
        const answers = await answersFor(open);
        open = open.filter((target) => answers.some((answer) => isFor(target, answer)));
        if (open.length > 0 && clock() >= end) return answered(answers);
      }
    },
  };
}

function isFor(target: ProbeTarget, answer: Answer): boolean {
  return answer.address === target.address && answer.ifindex === target.ifindex;
}
