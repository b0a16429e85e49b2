// The program of the README runs as it is.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { start } from "./server.js";

test("the program of the README prints the memory that it stored", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const program = /```js\n(.*?)```/s.exec(readme)[1];
  assert.ok(program.split("\n").length <= 16);
  const folder = await mkdtemp(join(tmpdir(), "vecall-readme-"));
  const server = await start();
  try {
    const path = join(folder, "program.mjs");
    const here = new URL("../src/index.js", import.meta.url).href;
    await writeFile(path, program.replace('"vecall-client"', JSON.stringify(here)));
    const env = { ...process.env, VECALL_URL: server.url, VECALL_TOKEN: server.alice };
    const { stdout } = await promisify(execFile)(process.execPath, [path], { env });
    assert.match(stdout, /^0\.\d+ Prefers a quiet room on a high floor\.\ntrue\n$/);
  } finally {
    await server.stop();
    await rm(folder, { recursive: true });
  }
});
