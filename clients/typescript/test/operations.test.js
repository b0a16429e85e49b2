// Every operation, tokens, texts and integers, against a real server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { UserMemory, VecallClient, VecallArgumentError, ForbiddenError } from "../src/index.js";
import { failure, start } from "./server.js";

let server;
let admin;
before(async () => {
  server = await start();
  admin = await server.token("--admin");
});
after(() => server.stop());

let users = 0;
/** The memories of a user that no other test uses. */
async function newUser() {
  users += 1;
  const user = `user-${users}`;
  const { text } = await server.token("--app", "hotel", "--user", user, "--review");
  return server.client(text).user("hotel", user);
}

async function all(lines) {
  const found = [];
  for await (const line of lines) found.push(line);
  return found;
}

test("every operation returns what the server stores", async () => {
  const called = new Set();
  const recorded = (target) =>
    new Proxy(target, {
      get(object, name) {
        called.add(name);
        return (...given) => object[name](...given);
      },
    });
  const client = recorded(server.client(admin.text));
  const alice = recorded(server.client().user("hotel", "alice"));

  for (const probe of ["health", "live", "ready"]) {
    assert.deepEqual(await client[probe](), { status: "ok" });
  }
  assert.equal((await client.openapi()).openapi, "3.1.0");
  assert.deepEqual(await alice.addMemories({ memories: [{ content: "Likes tea.", id: "1" }] }), {
    ids: ["1"],
  });
  const added = await alice.addEvents({ events: [{ content: "Hello." }, {}], session_id: "s" });
  assert.equal(added.ids[1], null);
  assert.deepEqual(added.left_out, [{ index: 1, reason: "no_text" }]);
  assert.equal((await alice.ingestSession({ sessionId: "known" })).ids.length, 1);
  const { memories, truncated } = await alice.searchMemories({
    query: "tea",
    filter: { metadata: { nothing: { $ne: 1 } }, before: new Date(Date.now() + 86_400_000) },
    explain: true,
  });
  assert.equal(memories[0].content, "Likes tea.");
  assert.equal(typeof memories[0].explanation.bm25, "number");
  assert.equal(truncated, undefined);
  assert.equal((await alice.listMemories({ limit: 1, state: "live" })).memories.length, 1);
  assert.equal((await all(alice.allMemories({ limit: 2 }))).length, 3);
  const ofSession = { session_id: "s" };
  assert.equal((await alice.listWhere({ filter: ofSession })).memories.length, 1);
  assert.deepEqual(await alice.countMemories({ filter: ofSession }), { count: 1 });
  assert.deepEqual(await alice.touchMemories({ ids: ["1", "unknown"], ttl: 3600 }), {
    touched: 1,
  });
  assert.equal((await alice.getMemory("1")).kind, memories[0].kind);
  const changed = await alice.updateMemory("1", { content: "Likes coffee.", author: null });
  assert.equal(changed.content, "Likes coffee.");
  const { revisions } = await alice.memoryHistory("1");
  assert.deepEqual(
    revisions.map(({ memory, state }) => [memory.content, state]),
    [
      ["Likes tea.", "overwritten"],
      ["Likes coffee.", "live"],
    ],
  );
  assert.deepEqual(await alice.markUsed({ ids: ["1", "2"] }), { marked: 1 });
  assert.equal(await alice.archiveMemory("1"), undefined);
  assert.deepEqual(await alice.restoreMemory("1"), { ids: ["1"] });
  const observed = { events: [{ content: "A duck.", id: "d" }] };
  assert.deepEqual(await alice.observeSession("o", observed), { ids: [] });
  assert.equal((await alice.endSession("o", observed)).ids.length, 1);
  assert.equal((await alice.consolidate()).dry_run, true);
  assert.equal((await alice.duplicates()).dry_run, true);
  assert.deepEqual(await alice.conflicts({ limit: 1 }), { conflicts: [] });
  const lines = await all(alice.exportUser({ vectors: true }));
  assert.equal(lines[0].vecall, "export");
  assert.equal(lines.filter((line) => line.mem).length, 4);
  const listed = await alice.listSessions({ prefix: "s" });
  assert.deepEqual(
    listed.sessions.map(({ session_id, memories }) => [session_id, memories]),
    [["s", 1]],
  );
  const backend = recorded(server.client((await server.token("--all-apps")).text));
  assert.deepEqual((await backend.listApps()).apps.map((app) => app.app_name), ["hotel"]);
  const { users } = await backend.listUsers("hotel", { limit: 1 });
  assert.deepEqual([users[0].user_id, users[0].memories], ["alice", 4]);
  assert.equal((await backend.showToken()).all_apps, true);
  const figures = await alice.memoryFigures();
  assert.equal(
    Object.values(figures.days).reduce((sum, number) => sum + number),
    4,
  );
  const asked = await alice.preloadMemories({ query: "A duck." });
  assert.match(asked.block, /A duck/);
  assert.equal((await alice.explainMemory("1", { query: "duck" })).outcome, "no_candidate");
  const proposal = await alice.proposeForget({ query: "duck", k: 1 });
  assert.equal(proposal.memories[0].content, "A duck.");
  assert.deepEqual(await alice.confirmForget({ token: proposal.token }), { deleted: 1 });
  assert.deepEqual(await alice.deleteSession("o"), { deleted: 0 });
  assert.deepEqual(await alice.deleteWhere({ filter: { session_id: "s" } }), { deleted: 1 });
  assert.equal(await alice.deleteMemory("1"), undefined);
  assert.deepEqual(await alice.deleteUser({ confirm: true }), { deleted: 1 });

  assert.ok((await client.metrics()).includes("\nvecall_memories 0\n"));
  assert.match((await client.backup()).name, /\.db$/);
  await alice.addMemories({ memories: ["a", "b"] });
  assert.deepEqual(await client.adminDeleteUser("hotel", "alice", { confirm: true }), {
    deleted: 2,
  });
  await alice.addMemories({ memories: ["c"] });
  assert.deepEqual(await client.adminDeleteApp("hotel", { confirm: true, forget: true }), {
    deleted: 1,
  });

  const reviewer = recorded(await newUser());
  await reviewer.addMemories({ memories: [{ content: "held", id: "h" }] });
  assert.deepEqual((await reviewer.searchMemories({ query: "held" })).memories, []);
  assert.deepEqual(await reviewer.releaseMemory("h"), { ids: ["h"] });
  assert.equal((await reviewer.searchMemories({ query: "held" })).memories.length, 1);

  const there = [VecallClient, UserMemory].flatMap((each) =>
    Object.getOwnPropertyNames(each.prototype),
  );
  const others = there.filter((name) => !called.has(name));
  assert.deepEqual(others.sort(), ["constructor", "constructor", "user"]);
});

test("a token opens the memories of its user only", async () => {
  const bob = await server.token("--app", "hotel", "--user", "bob");
  const secret = "Bob has a zebra.";
  await server.client(bob.text).user("hotel", "bob").addMemories({ memories: [secret] });
  const calls = [
    (user) => user.searchMemories({ query: "zebra" }),
    (user) => user.listMemories(),
    (user) => all(user.exportUser()),
    (user) => user.addMemories({ memories: ["x"] }),
    (user) => user.deleteUser({ confirm: true }),
    (user) => user.endSession("s"),
  ];
  const alice = server.client();
  for (const call of calls) {
    for (const [app, user] of [["hotel", "bob"], ["hotel", "nobody"], ["other", "alice"]]) {
      const error = await failure(call(alice.user(app, user)), server.alice, secret, "bob");
      assert.ok(error instanceof ForbiddenError);
      assert.equal(error.code, "forbidden");
    }
  }
  // Names that mean another path when a URL is normalized.
  for (const name of ["alice/../bob", "bob?", "bob#", "%62ob", "..%2fbob", "bob/memories"]) {
    await failure(alice.user("hotel", name).listMemories(), server.alice);
    await failure(alice.user("hotel", "alice").getMemory(`../../bob/memories/${name}`));
  }
  for (const name of [".", "..", "", "a\0b", "\ud800", 1, undefined, {}]) {
    assert.throws(() => alice.user("hotel", name), VecallArgumentError);
    assert.throws(() => alice.user(name, "alice"), VecallArgumentError);
    const error = await failure(alice.user("hotel", "alice").getMemory(name));
    assert.ok(error instanceof VecallArgumentError);
  }
  const found = await server.client(bob.text).user("hotel", "bob").listMemories();
  assert.deepEqual(found.memories.map((each) => each.content), [secret]);
});

test("nothing shows the token of a client", async () => {
  const client = server.client();
  for (const shown of [client, client.user("hotel", "alice"), client.user]) {
    await failure(Promise.reject(shown), server.alice);
  }
});

test("names with any characters are those of the server", async () => {
  const backend = server.client((await server.token("--app", "hotel")).text);
  const names = ["a/b", "ä ö", "日本語", "🦓", "a+b&c=d;e", "%2e%2e", "...", "~", "a\nb", "'\"<>\\"];
  for (const name of names) {
    await backend.user("hotel", name).addMemories({ memories: [{ content: name, id: name }] });
  }
  for (const name of names) {
    const user = backend.user("hotel", name);
    const page = await user.listMemories();
    assert.deepEqual(page.memories.map(({ content, id }) => [content, id]), [[name, name]]);
    assert.equal((await user.getMemory(name)).content, name);
  }
});

test("texts come back as they were sent", async () => {
  const user = await newUser();
  const texts = [
    "naïve 日本語 🦓 \u202e\u0301",
    "a\0b\u0001\u007f\u2028\u2029",
    "lone \ud800 and \udc00 and \udc00\ud800",
    '"quotes" \\ \\" \\u0041 \n\r\t',
    "12345678901234567890123",
    '{"a":12345678901234567890}',
    "\\".repeat(100_000),
    "é".repeat(131_072),
    "__proto__",
    "</script>",
  ];
  const memories = texts.map((content, each) => ({
    content,
    id: `${each}`,
    custom_metadata: { [`key ${content.slice(0, 50)}`]: content.slice(0, 500) },
  }));
  memories.push({ content: "parts", custom_metadata: JSON.parse('{"__proto__": {"a": [null]}}') });
  for (const memory of memories) await user.addMemories({ memories: [memory] });
  const found = await all(user.allMemories({ limit: 3 }));
  // The server stores UTF-8, so that a lone surrogate becomes U+FFFD.
  const stored = [...texts, "parts"].map((text) => text.toWellFormed());
  const wrong = found.filter(({ content }, each) => content !== stored[each]);
  assert.deepEqual(wrong.map(({ content }) => content.slice(0, 99)), []);
  assert.equal(found.length, texts.length + 1);
  assert.deepEqual(
    found.map((each) => each.custom_metadata),
    memories.map((each) => each.custom_metadata),
  );
  assert.equal({}.a, undefined);
  const lines = await all(user.exportUser());
  const exported = lines.flatMap(({ mem }) => mem?.text ?? []);
  assert.ok(exported.every((text, each) => text === stored[each]));
  assert.equal(exported.length, texts.length + 1);
});

test("what the server cannot store is refused with its rule, without the text", async () => {
  const user = await newUser();
  const secret = "zebra";
  const custom_metadata = { note: secret.repeat(60_000) };
  const error = await failure(
    user.addMemories({ memories: [{ content: "a", custom_metadata }] }),
    secret,
  );
  assert.equal(error.code, "invalid");
  assert.match(error.message, /max_metadata_bytes/);
  const large = await failure(user.addMemories({ memories: [secret.repeat(1_000_000)] }), secret);
  assert.equal(large.code, "too_large");
});

test("integers come back as they were sent, of any size", async () => {
  const user = await newUser();
  const numbers = {
    small: -5,
    safe: Number.MAX_SAFE_INTEGER,
    next: 2n ** 53n + 1n,
    negative: -(2n ** 63n),
    huge: 10n ** 300n + 7n,
    nested: [[{ deep: 9007199254740993n, text: "9007199254740993" }]],
    float: 0.1,
    large: 1.5e300,
    long: 0.12345678901234567,
  };
  await user.addMemories({ memories: [{ content: "numbers", id: "n", custom_metadata: numbers }] });
  assert.deepEqual((await user.getMemory("n")).custom_metadata, numbers);
  const query = (next) => user.searchMemories({ query: "numbers", filter: { metadata: { next } } });
  assert.equal((await query({ $gt: 2n ** 53n })).memories.length, 1);
  assert.equal((await query(numbers.next)).memories.length, 1);
  assert.equal((await query(numbers.next - 1n)).memories.length, 0);
  const { updated_at } = await user.getMemory("n");
  await user.addMemories({ memories: [{ content: "held", id: "h" }] });
  const { memories } = await user.listMemories({ state: "quarantined" });
  assert.notEqual(memories[0].updated_at, updated_at);
  await user.releaseMemory("h", { updated_at: memories[0].updated_at });
});

test("values that JSON would change or drop are refused before they are sent", async () => {
  const user = server.client("unused", { fetch: () => assert.fail("sent") }).user("hotel", "alice");
  const cycle = {};
  cycle.cycle = cycle;
  const values = [NaN, Infinity, () => 1, Symbol("s"), new Map(), new Set(), /x/, new Date(NaN),
    new Float32Array(2), [undefined], [, 1], cycle]; // prettier-ignore
  for (const value of values) {
    const error = await failure(
      user.addMemories({ memories: [{ content: "x", custom_metadata: { zebra: value } }] }),
      "zebra",
    );
    assert.ok(error instanceof VecallArgumentError);
  }
});

test("a field that is undefined counts as absent", async () => {
  const user = await newUser();
  const memory = { content: "x", kind: undefined, custom_metadata: { a: undefined, b: null } };
  await user.addMemories({ memories: [memory], idempotency_key: undefined });
  const [found] = await all(user.allMemories({ state: undefined }));
  assert.deepEqual(found.custom_metadata, { b: null });
});

test("an export that is left ends its request, and the server has a place again", async () => {
  const user = await newUser();
  await user.addMemories({ memories: ["x".repeat(200_000)] });
  for (let times = 0; times < 10; times += 1) {
    for await (const line of user.exportUser()) {
      assert.equal(line.vecall, "export");
      break;
    }
  }
});
