import { defineConfig } from "vitest/config";

// unit: pure code and text, in threads. kernel: real tools in network namespaces. ovn: the same with OVN's daemons, which are busy
// all the time, one file at a time and after the others. cluster: the same with a real kube-apiserver, last, because where there
// is none yet it is built meanwhile. Each has an order of its own: vitest puts projects of order 0 that have one worker behind all others.
export default defineConfig({
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: ["test/kernel/**", "test/lab/**", "test/ovn/**", "test/cluster/**"],
          pool: "threads",
          sequence: { groupOrder: 1 },
          // A deadline for what hangs, far above what a loaded machine needs.
          testTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: "kernel",
          include: ["test/kernel/**/*.test.ts", "test/lab/**/*.test.ts"],
          pool: "forks",
          // They mostly wait, each in namespaces of its own.
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        extends: true,
        test: {
          name: "ovn",
          include: ["test/ovn/**/*.test.ts"],
          pool: "forks",
          fileParallelism: false,
          sequence: { groupOrder: 3 },
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        extends: true,
        test: {
          name: "cluster",
          include: ["test/cluster/**/*.test.ts"],
          globalSetup: "test/cluster/set-up.ts",
          pool: "forks",
          // They mostly wait, each for a server of its own.
          maxWorkers: 2,
          sequence: { groupOrder: 4 },
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
    passWithNoTests: false,
    expect: { requireAssertions: true },
    restoreMocks: true,
  },
});
