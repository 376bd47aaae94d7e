import { defineConfig } from "rolldown";

export default defineConfig({
  input: { "egressip-agent": "agent/main.ts" },
  platform: "node",
  output: { dir: "dist", format: "esm", sourcemap: true, minify: false, cleanDir: true },
});
