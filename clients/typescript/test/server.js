// A `vecall serve` process with tokens, for the tests.

import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { inspect, promisify } from "node:util";

import { VecallClient } from "../src/index.js";

const VECALL = process.env.VECALL ?? "vecall";
const FOLDER = fileURLToPath(new URL(".", import.meta.url));
const ENVIRONMENT = { ...process.env, PYTHONPATH: FOLDER, PYTHONDONTWRITEBYTECODE: "1" };
const RATES = ["--writes-per-second", "10000", "--reads-per-second", "10000"];

/** Start a server on a new file; its options are added to those that make it quick. */
export async function start(...options) {
  const folder = await mkdtemp(join(tmpdir(), "vecall-client-"));
  const path = join(folder, "memory.db");
  const vecall = async (...words) =>
    (await promisify(execFile)(VECALL, [...words, "--path", path], { env: ENVIRONMENT })).stdout;
  const token = async (...bound) => {
    const { token: text, id } = JSON.parse(await vecall("token", "create", "--json", ...bound));
    return { text, id };
  };
  const alice = await token("--app", "hotel", "--user", "alice");
  const child = spawn(
    VECALL,
    [
      ...["serve", "--path", path, "--port", "0", "--embedder", "none"],
      ...["--session-loader", "server_hooks:load", "--on-write", "server_hooks:judge"],
      ...["--backups", join(folder, "backups"), ...RATES, ...options],
    ],
    { env: ENVIRONMENT, stdio: ["ignore", "pipe", "ignore"] },
  );
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const url = await new Promise((resolve, reject) => {
    ended.then(() => reject(new Error("the server ended")));
    createInterface(child.stdout).on("line", (line) => resolve(line.split(" ").pop()));
  });
  return {
    url,
    alice: alice.text,
    token,
    revoke: (id) => vecall("token", "revoke", id),
    client: (bearer = alice.text, more = {}) => new VecallClient({ url, token: bearer, ...more }),
    async stop() {
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

/** The error with which a promise rejects, checked to repeat nothing secret. */
export async function failure(promise, ...secrets) {
  let error;
  try {
    await promise;
  } catch (caught) {
    error = caught;
  }
  if (error === undefined) throw new Error("nothing was thrown");
  const shown = inspect(error, { depth: 9, showHidden: true }) + JSON.stringify(error);
  for (const secret of secrets) {
    if (shown.includes(secret)) throw new Error("an error repeats a secret");
  }
  return error;
}
