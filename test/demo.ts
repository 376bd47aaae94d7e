// `npm run demo [-- shared|secondary|kubernetes]`: the agent told as a story, on the lab of test/lab, with real OVN, or with an API server too. Exit status 1 when something else
// was seen than expected, or this machine cannot make the lab.
import { kubernetesDemo } from "./cluster-lab/demo.ts";
import { localDemo } from "./lab/demo.ts";
import { sharedDemo } from "./ovn-lab/demo.ts";
import { secondaryDemo } from "./ovn-lab/demo-secondary.ts";
import { noKubePrograms } from "./support/kube-programs.ts";
import { noOvn } from "./support/ovn-programs.ts";
import { canRunKernelTests } from "./support/privileged.ts";
import { type Story, tell } from "./support/story.ts";

const demos: Readonly<
  Record<string, { readonly missing: () => string | undefined; readonly story: () => Story }>
> = {
  local: { missing: () => canRunKernelTests(), story: localDemo },
  shared: { missing: () => canRunKernelTests() ?? noOvn(), story: sharedDemo },
  kubernetes: {
    missing: () => canRunKernelTests() ?? noOvn() ?? noKubePrograms(),
    story: kubernetesDemo,
  },
  secondary: { missing: () => canRunKernelTests() ?? noOvn(), story: secondaryDemo },
};

async function demo(name: string): Promise<number> {
  const chosen = demos[name];
  if (chosen === undefined) {
    console.error(`demo: there is no demo ${name}, only ${Object.keys(demos).join(", ")}`);
    return 1;
  }
  const missing = chosen.missing();
  if (missing !== undefined) {
    console.error(
      `demo: this machine cannot make the lab, which needs root and network namespaces: ${missing}`,
    );
    return 1;
  }
  return await tell(chosen.story());
}

process.exit(await demo(process.argv[2] ?? "local"));
