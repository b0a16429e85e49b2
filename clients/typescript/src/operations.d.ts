// Generated from the server's OpenAPI document by .ci/generate_typescript.

import type { CallOptions, ClientOptions } from "./transport.js";
import type {
  AddEvents,
  AddMemories,
  Added,
  Apps,
  Backup,
  Change,
  ConfirmForget,
  Conflicts,
  Consolidate,
  Consolidation,
  CountWhere,
  Counted,
  DeleteWhere,
  Deleted,
  Document,
  Explain,
  Explanation,
  ExportLine,
  Figures,
  Forget,
  Found,
  Health,
  History,
  Ids,
  Ingest,
  ListWhere,
  Marked,
  Memory,
  Name,
  Page,
  Preload,
  Preloaded,
  Proposal,
  Release,
  Search,
  Sessions,
  TokenRights,
  Touch,
  Touched,
  Turns,
  Used,
  Users,
} from "./schemas.js";

export interface ListMemoriesQuery {
  /** "live", "archived" (not searched) or "quarantined" (held for review). */
  state?: "live" | "archived" | "quarantined";
  /** The `next` of the previous page, which is the id of its last memory. */
  cursor?: Name;
  /**
   * Maximum number, 1 to `Limits.max_top_k`; the default is 100, or that. At least 1; at
   * most 1000.
   */
  limit?: number;
}

export interface DeleteUserQuery {
  /**
   * Also delete the user's name and tombstones. Ingesting their sessions again stores
   * them again.
   */
  forget?: boolean;
  confirm: true;
}

export interface ExportUserQuery {
  vectors?: boolean;
}

export interface DeleteMemoryQuery {
  /** Delete it only if this is its `version`. */
  if_version?: number | bigint;
}

export interface DuplicatesQuery {
  /**
   * Also merge facts whose vectors have at least this cosine, in (0, 1]; None does not.
   * Facts that differ in a number, in a negation or in being a question are never
   * merged. Try a dry run first: the right cosine depends on the embedder. At least 0;
   * at most 1.
   */
  similarity?: number;
}

export interface ConflictsQuery {
  /**
   * Maximum number, 1 to `Limits.max_top_k`; the default is 20, or that. At least 1; at
   * most 1000.
   */
  limit?: number;
}

export interface ListAppsQuery {
  /** Only apps whose names begin with this text. */
  prefix?: Name;
  /** Only apps after this one: the `next` of the previous page. */
  after?: Name;
  /** Maximum number, 1 to `Limits.max_top_k`; the default is 100, or that. */
  limit?: number;
}

export interface ListUsersQuery {
  /** Only users whose names begin with this text. */
  prefix?: Name;
  /** Only users after this one: the `next` of the previous page. */
  after?: Name;
  /** Maximum number, 1 to `Limits.max_top_k`; the default is 100, or that. */
  limit?: number;
}

export interface ListSessionsQuery {
  /** Only sessions whose ids begin with this text. */
  prefix?: Name;
  /** Only sessions after this one: the `next` of the previous page. */
  after?: Name;
  /**
   * Maximum number, 1 to `Limits.max_top_k`; the default is 100, or that. At least 1; at
   * most 1000.
   */
  limit?: number;
  include_expired?: boolean;
}

export interface MemoryFiguresQuery {
  /** Default: "live". */
  state?: "live" | "archived" | "quarantined";
  include_expired?: boolean;
}

export interface AdminDeleteAppQuery {
  confirm: true;
  forget?: boolean;
}

export interface AdminDeleteUserQuery {
  /**
   * Also delete the user's name and tombstones. Ingesting their sessions again stores
   * them again.
   */
  forget?: boolean;
  confirm: true;
}

/** A client of a vecall server. Never changes; share it. */
export declare class VecallClient {
  #private;

  constructor(options: ClientOptions);

  /** Return the memories of one user of one app. Sends nothing. */
  user(app: string, user: string): UserMemory;

  /** Return the apps that the token may know, in order of names. Retried after a failure. */
  listApps(query?: ListAppsQuery, options?: CallOptions): Promise<Apps>;

  /**
   * Return the users that the token may know, in order of names. Retried after a
   * failure.
   */
  listUsers(app: string, query?: ListUsersQuery, options?: CallOptions): Promise<Users>;

  /** Return what the token permits. Retried after a failure. */
  showToken(options?: CallOptions): Promise<TokenRights>;

  /** Return metrics in the text format of Prometheus. Retried after a failure. */
  metrics(options?: CallOptions): Promise<string>;

  /** Copy the file to the folder of backups. Not retried after a failure. */
  backup(options?: CallOptions): Promise<Backup>;

  /**
   * Delete all memories of all users of an app; return their number. Not retried after a
   * failure.
   */
  adminDeleteApp(app: string, query: AdminDeleteAppQuery, options?: CallOptions): Promise<Deleted>;

  /** Delete all memories of a user; return their number. Not retried after a failure. */
  adminDeleteUser(app: string, user: string, query: AdminDeleteUserQuery, options?: CallOptions): Promise<Deleted>;

  /** Return that the server is alive. Retried after a failure. */
  health(options?: CallOptions): Promise<Health>;

  /** Return that the server is alive. Retried after a failure. */
  live(options?: CallOptions): Promise<Health>;

  /**
   * Return that the storage answers and the server is not about to end. Retried after a
   * failure.
   */
  ready(options?: CallOptions): Promise<Health>;

  /** Return this document. Retried after a failure. */
  openapi(options?: CallOptions): Promise<Document>;
}

/** The memories of one user of one app. */
export declare class UserMemory {
  #private;
  private constructor();

  /**
   * Store the turns of a session that the session loader returns. Retried after a
   * failure.
   */
  ingestSession(body?: Ingest, options?: CallOptions): Promise<Added>;

  /**
   * Store some turns, such as the new ones since the last call. Retried after a failure,
   * under an idempotency key.
   */
  addEvents(body?: AddEvents, options?: CallOptions): Promise<Added>;

  /**
   * Delete the memories of one session permanently; return their number. Not retried
   * after a failure.
   */
  deleteSession(session: string, options?: CallOptions): Promise<Deleted>;

  /** Buffer new turns until the trigger fires. Not retried after a failure. */
  observeSession(session: string, body?: Turns, options?: CallOptions): Promise<Ids>;

  /** Make memories of the buffered turns of a session. Not retried after a failure. */
  endSession(session: string, body?: Turns, options?: CallOptions): Promise<Ids>;

  /**
   * Store facts, decisions or other memories, as strings or entries. Retried after a
   * failure, under an idempotency key.
   */
  addMemories(body: AddMemories, options?: CallOptions): Promise<Added>;

  /** Return a page of a user's memories in order of creation. Retried after a failure. */
  listMemories(query?: ListMemoriesQuery, options?: CallOptions): Promise<Page>;

  /** Delete all memories of a user; return their number. Not retried after a failure. */
  deleteUser(query: DeleteUserQuery, options?: CallOptions): Promise<Deleted>;

  /** Return a user's memories that are relevant to a query. Retried after a failure. */
  searchMemories(body: Search, options?: CallOptions): Promise<Found>;

  /**
   * Return the block of memories that an agent gets with a message. Retried after a
   * failure.
   */
  preloadMemories(body: Preload, options?: CallOptions): Promise<Preloaded>;

  /** Return a page of a user's memories in order of creation. Retried after a failure. */
  listWhere(body?: ListWhere, options?: CallOptions): Promise<Page>;

  /** Return the number of a user's memories that pass a filter. Retried after a failure. */
  countMemories(body?: CountWhere, options?: CallOptions): Promise<Counted>;

  /**
   * Record that memories were used, for example in an answer. Not retried after a
   * failure.
   */
  markUsed(body: Used, options?: CallOptions): Promise<Marked>;

  /** Move the expiry of memories, without writing them again. Retried after a failure. */
  touchMemories(body: Touch, options?: CallOptions): Promise<Touched>;

  /**
   * Delete a user's memories that match a filter, permanently. Not retried after a
   * failure.
   */
  deleteWhere(body: DeleteWhere, options?: CallOptions): Promise<Deleted>;

  /** Stream all memories of a user as JSON lines. Retried after a failure. */
  exportUser(query?: ExportUserQuery, options?: CallOptions): AsyncGenerator<ExportLine, void, undefined>;

  /** Return one memory by its id. Retried after a failure. */
  getMemory(id: string, options?: CallOptions): Promise<Memory>;

  /**
   * Correct one memory; its history keeps the former version. Not retried after a
   * failure.
   */
  updateMemory(id: string, body?: Change, options?: CallOptions): Promise<Memory>;

  /** Delete one memory permanently; return whether it was there. Retried after a failure. */
  deleteMemory(id: string, query?: DeleteMemoryQuery, options?: CallOptions): Promise<void>;

  /**
   * Return all revisions of a memory and of those it replaced, oldest first. Retried
   * after a failure.
   */
  memoryHistory(id: string, options?: CallOptions): Promise<History>;

  /**
   * Return why a search returns one memory, or does not, and by what margin. Retried
   * after a failure.
   */
  explainMemory(id: string, body: Explain, options?: CallOptions): Promise<Explanation>;

  /** Exclude a memory from searches, but keep it stored. Not retried after a failure. */
  archiveMemory(id: string, options?: CallOptions): Promise<void>;

  /** Make an archived memory live again. Not retried after a failure. */
  restoreMemory(id: string, options?: CallOptions): Promise<Ids>;

  /**
   * Make a quarantined memory live; needs the right to review. Not retried after a
   * failure.
   */
  releaseMemory(id: string, body?: Release, options?: CallOptions): Promise<Ids>;

  /** Search for memories to forget, without deleting them. Not retried after a failure. */
  proposeForget(body: Forget, options?: CallOptions): Promise<Proposal>;

  /**
   * Delete memories of a proposal permanently; return their number. Not retried after a
   * failure.
   */
  confirmForget(body: ConfirmForget, options?: CallOptions): Promise<Deleted>;

  /**
   * Merge duplicates and summarize old memories; dry run by default. Not retried after a
   * failure.
   */
  consolidate(body?: Consolidate, options?: CallOptions): Promise<Consolidation>;

  /** Show what `consolidate` would merge; change nothing. Retried after a failure. */
  duplicates(query?: DuplicatesQuery, options?: CallOptions): Promise<Consolidation>;

  /**
   * Propose pairs of statements that may contradict or update each other. Retried after
   * a failure.
   */
  conflicts(query?: ConflictsQuery, options?: CallOptions): Promise<Conflicts>;

  /**
   * Return a page of the user's sessions that have memories, in order of names. Retried
   * after a failure.
   */
  listSessions(query?: ListSessionsQuery, options?: CallOptions): Promise<Sessions>;

  /** Return how many memories a user has, by day and by kind. Retried after a failure. */
  memoryFigures(query?: MemoryFiguresQuery, options?: CallOptions): Promise<Figures>;

  /** Yields the items of all pages; reads a page when its first is needed. */
  allMemories(query?: ListMemoriesQuery, options?: CallOptions): AsyncGenerator<Memory, void, undefined>;
}
