// Answers what `explain` is asked. In: a Question, the last Round, the host as it is now. Out: an Explanation. Pure, but for being
// told first which pod addresses rows of others have to be read for.
import type { Round } from "../../loop.ts";
import { type Address, compareAddresses, familyOf, parseAddress } from "../../model/ip.ts";
import type { OthersRows } from "../../model/northbound.ts";
import type { Pod } from "../../model/objects.ts";
import type { Seen } from "../../model/seen.ts";
import { entriesOf, getFrom } from "../../model/shards.ts";
import type { Snapshot } from "../../model/snapshot.ts";
import { type Account, type Answer, EXPLANATION_VERSION, type Explanation, type WhyNot } from "./account.ts";
import { explainEgressIP } from "./address.ts";
import { ofStranger, unknownPod, whatItIs } from "./no-pod.ts";
import { explainPacket, type Known, unjudgedNote } from "./packet.ts";
import { type Destination, type Protocol, type Question, shownQuestion } from "./question.ts";
import { podObject, selectionOf, shownPod } from "./selection.ts";

/** Any address outside: what matters is that nothing in the cluster has it (TEST-NET-2, documentation prefix). */
const SOMEWHERE = { 4: "198.51.100.80", 6: "2001:db8:51::80" } as const;

export interface Answering {
  readonly node: string;
  /** Undefined before the first round. */
  readonly round: Round | undefined;
  /** Where it cannot be looked at, what the last round found is all there is. */
  readonly look: () => Promise<Seen>;
  readonly others: (facts: Seen["facts"], address: Address) => Promise<OthersRows | undefined>;
}

export async function explain(
  question: Question,
  { node, round, look, others }: Answering,
): Promise<Explanation> {
  const blank: Explanation = {
    version: EXPLANATION_VERSION,
    asked: shownQuestion(question),
    node,
    summary: "",
    whyNot: [],
    accounts: [],
    notes: [],
  };
  if (round === undefined)
    return { ...blank, summary: "no round has been completed yet: ask again in a moment" };
  const notes: string[] = [];
  const seen = await look().catch((error: Error): Seen => {
    notes.push(
      `this host could not be looked at (${error.message}): what follows is what the last round found`,
    );
    return { facts: round.outcome.facts, neighbours: [], foreign: [] };
  });
  const subject = subjectOf(question, round);
  const rows = await Promise.all(
    subject.sources.map(async (source) => [source, await others(seen.facts, source)] as const),
  );
  const answer = answerTo(question, subject, { round, seen, others: new Map(rows) });
  return { ...blank, ...answer, notes: [...notes, ...answer.notes, ...notesOf(round, seen)] };
}

/** What is asked about: a pod, if there is one, and the addresses whose way is walked. */
interface Subject {
  readonly pod: Pod | undefined;
  readonly sources: readonly Address[];
}

function subjectOf(question: Question, round: Round): Subject {
  if (question.kind === "ip") {
    const pod = podWith(round, question.address);
    return { pod, sources: pod === undefined ? [] : [question.address] };
  }
  const name = question.kind === "pod" ? question.pod : question.from;
  const address = parseAddress(name);
  if (address === undefined) {
    const pod = getFrom(round.objects.pods, `Pod/${name}`);
    return { pod, sources: sourcesOf(pod, question.to) };
  }
  return { pod: podWith(round, address), sources: [address] };
}

function sourcesOf(pod: Pod | undefined, to: Destination | undefined): readonly Address[] {
  const addresses = [...(pod?.addresses ?? [])].sort(compareAddresses);
  return to === undefined ? addresses : addresses.filter((one) => familyOf(one) === familyOf(to.address));
}

function podWith(round: Round, address: Address): Pod | undefined {
  const claimed = getFrom(round.snapshot.served.claims, address)?.[0]?.pod;
  if (claimed !== undefined) return claimed;
  for (const [, pod] of entriesOf(round.objects.pods)) if (pod.addresses.includes(address)) return pod;
  return undefined;
}

function answerTo(question: Question, subject: Subject, known: Known): Answer {
  switch (question.kind) {
    case "pod":
      if (subject.pod === undefined) return unknownPod(question.pod, known);
      return ofPod(subject.pod, subject.sources, question.to, question.protocol, known);
    case "packet":
      if (subject.sources.length === 0 && subject.pod === undefined) return unknownPod(question.from, known);
      if (subject.pod !== undefined)
        return ofPod(subject.pod, subject.sources, question.to, question.protocol, known);
      return ofStranger(question.from, question.to, question.protocol, known);
    case "ip":
      return ofAddress(question.address, subject, known);
  }
}

function ofPod(
  pod: Pod,
  sources: readonly Address[],
  to: Destination | undefined,
  protocol: Protocol,
  known: Known,
): Answer {
  const { snapshot, objects } = known.round;
  const explained = sources.map((source) =>
    explainPacket(known, pod, source, to ?? { address: SOMEWHERE[familyOf(source)] }, protocol),
  );
  const { by, whyNot } = selectionOf(snapshot, pod);
  const reasons = unique([
    ...whyNot,
    ...explained.flatMap((one) => one.whyNot),
    ...(by === undefined || explained.every(({ account }) => hasIt(account)) ? [] : unconfirmed(known, pod)),
  ]);
  const own = objects.problems.filter(({ object }) => object === podObject(pod));
  return {
    summary: shownPod(pod),
    whyNot: reasons,
    accounts: explained.map(({ account }) => account),
    notes: [
      ...own.map(({ path, text }) => `${podObject(pod)} ${path}: ${text}`),
      ...(to !== undefined && sources.length === 0 && pod.addresses.length > 0
        ? [`the pod has no IPv${familyOf(to.address)} address, so it sends nothing to ${to.address}`]
        : []),
      ...elsewhere(snapshot, pod),
      ...unjudgedNote(explained),
      "connections that were open before keep the source they have",
    ],
  };
}

/** What the account of a pod of another node is about. */
function elsewhere({ settings }: Snapshot, pod: Pod): readonly string[] {
  if (pod.node === settings.node || pod.node === "") return [];
  return [
    `the pod is on ${pod.node}: this is the way of its packets from where OVN brings them here, if it does`,
  ];
}

/** Leaves with an egress IP that is answered for. */
function hasIt({ verdict: { egressIP, at } }: Account): boolean {
  return egressIP !== undefined && at !== "address";
}

function unconfirmed({ round }: Known, pod: Pod): readonly WhyNot[] {
  const { unconfirmed: doubt } = round.objects;
  if (doubt === undefined) return [];
  return [
    {
      reason: "unconfirmed",
      object: podObject(pod),
      text: `since ${doubt.since} nobody confirms the objects (${doubt.why}): what is there stays, and nothing is gained`,
      remedy: "see kubernetes in status",
    },
  ];
}

function unique(reasons: readonly WhyNot[]): readonly WhyNot[] {
  return [...new Map(reasons.map((one) => [`${one.reason} ${one.object} ${one.text}`, one])).values()];
}

function ofAddress(address: Address, { pod }: Subject, known: Known): Answer {
  const { snapshot } = known.round;
  const asking = snapshot.egressIPs.filter(
    ({ requested, assignments }) =>
      requested.includes(address) || assignments.some((one) => one.address === address),
  );
  const problems = snapshot.problems
    .filter(({ text, object }) => object.startsWith("EgressIP/") && text.startsWith(`${address}: `))
    .map(({ object, text }) => `${object} ${text}`);
  if (asking.length > 0)
    return {
      summary: `${address} is an egress IP of ${asking.map(({ name }) => name).join(", ")}`,
      whyNot: [],
      accounts: [explainEgressIP(known, address, asking)],
      notes: problems,
    };
  if (pod !== undefined) return ofPod(pod, [address], undefined, "tcp", known);
  const account: Account = {
    about: address,
    steps: [],
    verdict: { outcome: "nothing", why: whatItIs(snapshot, address) },
  };
  return {
    summary: `${address} is no egress IP, and no pod's address`,
    whyNot: [],
    accounts: [account],
    notes: problems,
  };
}

/** Of the round as a whole, what makes an answer less sure. */
function notesOf({ outcome, objects }: Round, { foreign }: Seen): readonly string[] {
  return [
    ...(objects.unconfirmed === undefined
      ? []
      : [`since ${objects.unconfirmed.since} nobody confirms the objects (${objects.unconfirmed.why})`]),
    ...outcome.failures.map(({ backend, error }) => `${backend} failed in the last round: ${error.message}`),
    ...foreign.map((chain) => `not looked at, and on the way too: nft ${chain}`),
  ];
}
