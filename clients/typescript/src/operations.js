// Generated from the server's OpenAPI document by .ci/generate_typescript.

import { checkNames } from "./names.js";
import { Transport } from "./transport.js";

const operations = {
  ingestSession: { method: "PATCH", path: "/apps/{app}/users/{user}/memory", repeat: "always", answer: "json" },
  addEvents: { method: "POST", path: "/apps/{app}/users/{user}/events", repeat: "with_key", answer: "json" },
  deleteSession: { method: "DELETE", path: "/apps/{app}/users/{user}/sessions/{session}", repeat: "never", answer: "json" },
  observeSession: { method: "POST", path: "/apps/{app}/users/{user}/sessions/{session}/observe", repeat: "never", answer: "json" },
  endSession: { method: "POST", path: "/apps/{app}/users/{user}/sessions/{session}/end", repeat: "never", answer: "json" },
  addMemories: { method: "POST", path: "/apps/{app}/users/{user}/memories", repeat: "with_key", answer: "json" },
  listMemories: { method: "GET", path: "/apps/{app}/users/{user}/memories", repeat: "always", answer: "json" },
  deleteUser: { method: "DELETE", path: "/apps/{app}/users/{user}/memories", repeat: "never", answer: "json" },
  searchMemories: { method: "POST", path: "/apps/{app}/users/{user}/memories/search", repeat: "always", answer: "json" },
  preloadMemories: { method: "POST", path: "/apps/{app}/users/{user}/memories/preload", repeat: "always", answer: "json" },
  listWhere: { method: "POST", path: "/apps/{app}/users/{user}/memories/list", repeat: "always", answer: "json" },
  countMemories: { method: "POST", path: "/apps/{app}/users/{user}/memories/count", repeat: "always", answer: "json" },
  markUsed: { method: "POST", path: "/apps/{app}/users/{user}/memories/used", repeat: "never", answer: "json" },
  touchMemories: { method: "POST", path: "/apps/{app}/users/{user}/memories/touch", repeat: "always", answer: "json" },
  deleteWhere: { method: "POST", path: "/apps/{app}/users/{user}/memories/delete", repeat: "never", answer: "json" },
  exportUser: { method: "GET", path: "/apps/{app}/users/{user}/export", repeat: "always", answer: "lines" },
  getMemory: { method: "GET", path: "/apps/{app}/users/{user}/memories/{id}", repeat: "always", answer: "json" },
  updateMemory: { method: "PATCH", path: "/apps/{app}/users/{user}/memories/{id}", repeat: "never", answer: "json" },
  deleteMemory: { method: "DELETE", path: "/apps/{app}/users/{user}/memories/{id}", repeat: "always", answer: "none" },
  memoryHistory: { method: "GET", path: "/apps/{app}/users/{user}/memories/{id}/history", repeat: "always", answer: "json" },
  explainMemory: { method: "POST", path: "/apps/{app}/users/{user}/memories/{id}/explain", repeat: "always", answer: "json" },
  archiveMemory: { method: "POST", path: "/apps/{app}/users/{user}/memories/{id}/archive", repeat: "never", answer: "none" },
  restoreMemory: { method: "POST", path: "/apps/{app}/users/{user}/memories/{id}/restore", repeat: "never", answer: "json" },
  releaseMemory: { method: "POST", path: "/apps/{app}/users/{user}/memories/{id}/release", repeat: "never", answer: "json" },
  proposeForget: { method: "POST", path: "/apps/{app}/users/{user}/forget", repeat: "never", answer: "json" },
  confirmForget: { method: "POST", path: "/apps/{app}/users/{user}/forget/confirm", repeat: "never", answer: "json" },
  consolidate: { method: "POST", path: "/apps/{app}/users/{user}/consolidate", repeat: "never", answer: "json" },
  duplicates: { method: "GET", path: "/apps/{app}/users/{user}/duplicates", repeat: "always", answer: "json" },
  conflicts: { method: "GET", path: "/apps/{app}/users/{user}/conflicts", repeat: "always", answer: "json" },
  listApps: { method: "GET", path: "/apps", repeat: "always", answer: "json" },
  listUsers: { method: "GET", path: "/apps/{app}/users", repeat: "always", answer: "json" },
  listSessions: { method: "GET", path: "/apps/{app}/users/{user}/sessions", repeat: "always", answer: "json" },
  memoryFigures: { method: "GET", path: "/apps/{app}/users/{user}/figures", repeat: "always", answer: "json" },
  showToken: { method: "GET", path: "/token", repeat: "always", answer: "json" },
  metrics: { method: "GET", path: "/metrics", repeat: "always", answer: "text" },
  backup: { method: "POST", path: "/admin/backup", repeat: "never", answer: "json" },
  adminDeleteApp: { method: "DELETE", path: "/admin/apps/{app}", repeat: "never", answer: "json" },
  adminDeleteUser: { method: "DELETE", path: "/admin/apps/{app}/users/{user}", repeat: "never", answer: "json" },
  health: { method: "GET", path: "/healthz", repeat: "always", answer: "json" },
  live: { method: "GET", path: "/livez", repeat: "always", answer: "json" },
  ready: { method: "GET", path: "/readyz", repeat: "always", answer: "json" },
  openapi: { method: "GET", path: "/openapi.json", repeat: "always", answer: "json" },
};

export class VecallClient {
  #transport;

  constructor(options) {
    this.#transport = new Transport(options);
  }

  user(app, user) {
    return new UserMemory(this.#transport, app, user);
  }

  listApps(query = {}, options) {
    return this.#transport.call(operations.listApps, {}, query, undefined, options);
  }

  listUsers(app, query = {}, options) {
    return this.#transport.call(operations.listUsers, { app }, query, undefined, options);
  }

  showToken(options) {
    return this.#transport.call(operations.showToken, {}, undefined, undefined, options);
  }

  metrics(options) {
    return this.#transport.call(operations.metrics, {}, undefined, undefined, options);
  }

  backup(options) {
    return this.#transport.call(operations.backup, {}, undefined, undefined, options);
  }

  adminDeleteApp(app, query, options) {
    return this.#transport.call(operations.adminDeleteApp, { app }, query, undefined, options);
  }

  adminDeleteUser(app, user, query, options) {
    return this.#transport.call(operations.adminDeleteUser, { app, user }, query, undefined, options);
  }

  health(options) {
    return this.#transport.call(operations.health, {}, undefined, undefined, options);
  }

  live(options) {
    return this.#transport.call(operations.live, {}, undefined, undefined, options);
  }

  ready(options) {
    return this.#transport.call(operations.ready, {}, undefined, undefined, options);
  }

  openapi(options) {
    return this.#transport.call(operations.openapi, {}, undefined, undefined, options);
  }
}

export class UserMemory {
  #transport;
  #names;

  constructor(transport, app, user) {
    this.#names = { app, user };
    checkNames(this.#names);
    this.#transport = transport;
  }

  ingestSession(body = {}, options) {
    return this.#transport.call(operations.ingestSession, { ...this.#names }, undefined, body, options);
  }

  addEvents(body = {}, options) {
    return this.#transport.call(operations.addEvents, { ...this.#names }, undefined, body, options);
  }

  deleteSession(session, options) {
    return this.#transport.call(operations.deleteSession, { ...this.#names, session }, undefined, undefined, options);
  }

  observeSession(session, body = {}, options) {
    return this.#transport.call(operations.observeSession, { ...this.#names, session }, undefined, body, options);
  }

  endSession(session, body = {}, options) {
    return this.#transport.call(operations.endSession, { ...this.#names, session }, undefined, body, options);
  }

  addMemories(body, options) {
    return this.#transport.call(operations.addMemories, { ...this.#names }, undefined, body, options);
  }

  listMemories(query = {}, options) {
    return this.#transport.call(operations.listMemories, { ...this.#names }, query, undefined, options);
  }

  deleteUser(query, options) {
    return this.#transport.call(operations.deleteUser, { ...this.#names }, query, undefined, options);
  }

  searchMemories(body, options) {
    return this.#transport.call(operations.searchMemories, { ...this.#names }, undefined, body, options);
  }

  preloadMemories(body, options) {
    return this.#transport.call(operations.preloadMemories, { ...this.#names }, undefined, body, options);
  }

  listWhere(body = {}, options) {
    return this.#transport.call(operations.listWhere, { ...this.#names }, undefined, body, options);
  }

  countMemories(body = {}, options) {
    return this.#transport.call(operations.countMemories, { ...this.#names }, undefined, body, options);
  }

  markUsed(body, options) {
    return this.#transport.call(operations.markUsed, { ...this.#names }, undefined, body, options);
  }

  touchMemories(body, options) {
    return this.#transport.call(operations.touchMemories, { ...this.#names }, undefined, body, options);
  }

  deleteWhere(body, options) {
    return this.#transport.call(operations.deleteWhere, { ...this.#names }, undefined, body, options);
  }

  exportUser(query = {}, options) {
    return this.#transport.lines(operations.exportUser, { ...this.#names }, query, undefined, options);
  }

  getMemory(id, options) {
    return this.#transport.call(operations.getMemory, { ...this.#names, id }, undefined, undefined, options);
  }

  updateMemory(id, body = {}, options) {
    return this.#transport.call(operations.updateMemory, { ...this.#names, id }, undefined, body, options);
  }

  deleteMemory(id, query = {}, options) {
    return this.#transport.call(operations.deleteMemory, { ...this.#names, id }, query, undefined, options);
  }

  memoryHistory(id, options) {
    return this.#transport.call(operations.memoryHistory, { ...this.#names, id }, undefined, undefined, options);
  }

  explainMemory(id, body, options) {
    return this.#transport.call(operations.explainMemory, { ...this.#names, id }, undefined, body, options);
  }

  archiveMemory(id, options) {
    return this.#transport.call(operations.archiveMemory, { ...this.#names, id }, undefined, undefined, options);
  }

  restoreMemory(id, options) {
    return this.#transport.call(operations.restoreMemory, { ...this.#names, id }, undefined, undefined, options);
  }

  releaseMemory(id, body = {}, options) {
    return this.#transport.call(operations.releaseMemory, { ...this.#names, id }, undefined, body, options);
  }

  proposeForget(body, options) {
    return this.#transport.call(operations.proposeForget, { ...this.#names }, undefined, body, options);
  }

  confirmForget(body, options) {
    return this.#transport.call(operations.confirmForget, { ...this.#names }, undefined, body, options);
  }

  consolidate(body = {}, options) {
    return this.#transport.call(operations.consolidate, { ...this.#names }, undefined, body, options);
  }

  duplicates(query = {}, options) {
    return this.#transport.call(operations.duplicates, { ...this.#names }, query, undefined, options);
  }

  conflicts(query = {}, options) {
    return this.#transport.call(operations.conflicts, { ...this.#names }, query, undefined, options);
  }

  listSessions(query = {}, options) {
    return this.#transport.call(operations.listSessions, { ...this.#names }, query, undefined, options);
  }

  memoryFigures(query = {}, options) {
    return this.#transport.call(operations.memoryFigures, { ...this.#names }, query, undefined, options);
  }

  async *allMemories(query = {}, options) {
    for (let next; ; ) {
      const page = await this.listMemories(
        next === undefined ? query : { ...query, cursor: next },
        options,
      );
      yield* page.memories;
      next = page.next;
      if (next === undefined) return;
    }
  }
}
