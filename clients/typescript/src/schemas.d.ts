// Generated from the server's OpenAPI document by .ci/generate_typescript.

/** A JSON value. Integers that a number cannot represent are bigints. */
export type JsonValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | readonly JsonValue[]
  | JsonObject;

/** A JSON object. A field with the value undefined is not sent. */
export interface JsonObject {
  readonly [key: string]: JsonValue | undefined;
}

/** At most 512 bytes in UTF-8, without NUL. */
export type Name = string;

/** JSON values; the key "ttl" makes a memory expire. */
export type Metadata = JsonObject;

/** Seconds since 1970, or ISO 8601 with an offset. */
export type Time = number | string | Date;

export type Scalar = string | number | bigint | boolean | null;

export type Operand = string | number | bigint | boolean | null | readonly Scalar[];

/** At least 1 field(s). */
export interface Operators {
  "$eq"?: Operand;
  "$ne"?: Operand;
  "$gt"?: number | bigint | string;
  "$gte"?: number | bigint | string;
  "$lt"?: number | bigint | string;
  "$lte"?: number | bigint | string;
  /** At least 1 item(s); at most 64 items. */
  "$in"?: readonly Operand[];
  /** At least 1 item(s); at most 64 items. */
  "$nin"?: readonly Operand[];
  "$contains"?: Scalar;
  /** At least 1 item(s); at most 64 items. */
  "$all"?: readonly Scalar[];
  /** At least 1 item(s); at most 64 items. */
  "$any"?: readonly Scalar[];
  "$exists"?: boolean;
  "$not"?: Operand | Operators;
}

/** At least 1 field(s). */
export interface TimeOperators {
  "$eq"?: Time;
  "$ne"?: Time;
  "$gt"?: Time;
  "$gte"?: Time;
  "$lt"?: Time;
  "$lte"?: Time;
  /** At least 1 item(s); at most 64 items. */
  "$in"?: readonly Time[];
  /** At least 1 item(s); at most 64 items. */
  "$nin"?: readonly Time[];
  "$exists"?: boolean;
  "$not"?: Time | TimeOperators;
}

/**
 * Keys of custom_metadata, or dotted paths, and the value of each, or operators with
 * operands; $timestamp and $updated_at, times of the memory; $and, $or and $not around
 * such conditions. At least 1 field(s); at most 16 field(s).
 */
export interface MetadataConditions {
  /** At least 1 item(s); at most 64 items. */
  "$and"?: readonly MetadataConditions[];
  /** At least 1 item(s); at most 64 items. */
  "$or"?: readonly MetadataConditions[];
  "$not"?: MetadataConditions;
  "$timestamp"?: Time | TimeOperators;
  "$updated_at"?: Time | TimeOperators;
  readonly [key: `$${string}`]: readonly MetadataConditions[] | MetadataConditions | Time | TimeOperators | undefined;
  readonly [key: string]: Operand | Operators | readonly MetadataConditions[] | MetadataConditions | Time | TimeOperators | undefined;
}

export interface Filter {
  session_id?: Name;
  after?: Time;
  before?: Time;
  author?: Name | readonly Name[];
  kind?: Name | readonly Name[];
  not_kind?: Name | readonly Name[];
  trust?: Name | readonly Name[];
  source?: Name | readonly Name[];
  not_session_id?: Name | readonly Name[];
  session_prefix?: Name | readonly Name[];
  kind_prefix?: Name | readonly Name[];
  not_id?: Name | readonly Name[];
  metadata?: MetadataConditions;
  min_trust?: "first-party" | "third-party-private" | "third-party-public" | "unverified" | "unknown";
}

export interface AddEvents {
  /** At most 256 items. */
  events?: readonly NewEvent[];
  /** Their session, if it is known. */
  session_id?: Name;
  /**
   * JSON values stored with each turn, sorted by key. The key "ttl" is as the argument,
   * "history_ttl" the TTL of former versions. The values of "metadata" are stored
   * without it; "wait_for_completion" is not stored.
   */
  custom_metadata?: Metadata;
  /** Store deleted turns again. */
  restore?: boolean;
  idempotency_key?: Name;
  /** At most 256 items. */
  messages?: readonly NewEvent[];
  /** TTL of the memories: seconds, a timedelta or "30d"; None is the service's. */
  ttl?: number | bigint | string | null;
  /** Store every custom_metadata as it is: all keys, in their order. */
  verbatim?: boolean;
}

export interface AddMemories {
  /** At most 256 items. */
  memories: readonly (string | NewMemory)[];
  custom_metadata?: Metadata;
  /**
   * None stores a deleted memory again. True also restores an archived or corrected one.
   * False does neither.
   */
  restore?: boolean;
  idempotency_key?: Name;
  /** At most 256 items. */
  vectors?: readonly (null | readonly (number | bigint)[])[];
  /** Store nothing if the user has a memory, in any state, with one of the ids. */
  if_absent?: boolean;
  ttl?: number | bigint | string | null;
  verbatim?: boolean;
  /**
   * The ids of memories that the only memory of the call replaces, or one id. They stay
   * stored, with their validity ended, are not found, and are in its history;
   * `restore_memory` makes them live again.
   */
  supersedes?: Name | readonly Name[];
  /**
   * Show which stored memories each new one may replace, without another embedding, for
   * at most 100 memories. Nothing is replaced.
   */
  similar?: boolean;
}

export interface Search {
  /** Any text. */
  query: string;
  /**
   * Maximum number of memories, at least 1; default: the service's. At least 1; at most
   * 1000.
   */
  k?: number;
  /**
   * Minimum cosine similarity in [-1, 1], inclusive. The service's minimum does not
   * apply to a ranking by words alone. At least -1; at most 1.
   */
  min_similarity?: number;
  /**
   * Minimum confidence in [0, 1], inclusive. Memories below it are omitted. At least 0;
   * at most 1.
   */
  min_confidence?: number;
  filter?: Filter;
  /** Whether each memory has the parts of its score. */
  explain?: boolean;
  /**
   * The query's vector by the file's model: shape (dimensions,), finite and not zero.
   * The embedder is not called. With query="" the search uses the vector alone. At least
   * 1 item(s); at most 8192 items.
   */
  vector?: readonly (number | bigint)[];
  /**
   * Number of the best results to leave out, 0 to 10,000: the result is that of the same
   * search with `top_k + offset`, without its first `offset` memories. A ranking that
   * reorders more than `depth` results may order them differently for another offset. At
   * least 0; at most 10000.
   */
  offset?: number;
  /**
   * Where the user is: an IANA name such as "Europe/Berlin", an offset such as "+02:00",
   * or a tzinfo; default: the service's. The days that the query names, as in
   * "yesterday", begin and end there.
   */
  time_zone?: Name;
}

export interface ListWhere {
  /** "live", "archived" (not searched) or "quarantined" (held for review). */
  state?: "live" | "archived" | "quarantined";
  /** The `next` of the previous page, which is the id of its last memory. */
  cursor?: Name;
  /**
   * Maximum number, 1 to `Limits.max_top_k`; the default is 100, or that. At least 1; at
   * most 1000.
   */
  limit?: number;
  filter?: Filter;
  /**
   * Also memories past their TTL or `valid_until` that the maintenance has not removed
   * yet.
   */
  include_expired?: boolean;
}

export interface CountWhere {
  /** Default: "live". */
  state?: "live" | "archived" | "quarantined";
  filter?: Filter;
  include_expired?: boolean;
}

export interface Used {
  /**
   * Ids that a search returned. Duplicates count once. Ids that the user does not have
   * are ignored. At most 256 items.
   */
  ids: readonly Name[];
}

export interface Touch {
  /**
   * Their ids, in any state. Ids that the user does not have, or whose memories have
   * expired, are ignored. At most 256 items.
   */
  ids: readonly Name[];
  /** How long they last from now: seconds, a timedelta or "30d"; None is for ever. */
  ttl: number | bigint | string | null;
}

export interface DeleteWhere {
  /** At least 1 field(s). */
  filter: {
    session_id?: Name;
    after?: Time;
    before?: Time;
    author?: Name | readonly Name[];
    kind?: Name | readonly Name[];
    not_kind?: Name | readonly Name[];
    trust?: Name | readonly Name[];
    source?: Name | readonly Name[];
    not_session_id?: Name | readonly Name[];
    session_prefix?: Name | readonly Name[];
    kind_prefix?: Name | readonly Name[];
    not_id?: Name | readonly Name[];
    metadata?: MetadataConditions;
    min_trust?: "first-party" | "third-party-private" | "third-party-public" | "unverified" | "unknown";
  };
}

export interface Change {
  /**
   * The new text. This and the following arguments are as in `MemoryEntry`. Omitted ones
   * do not change.
   */
  content?: NewContent;
  author?: null | string;
  /** The new time, in seconds since 1970. */
  timestamp?: null | Time;
  kind?: null | string;
  source?: null | string;
  /** The new metadata; replaces all of the old. */
  custom_metadata?: null | Metadata;
  /** The new importance, in [0, 1]. */
  importance?: null | number;
  /** The new end of its validity, in seconds since 1970. */
  valid_until?: null | Time;
  /**
   * The new vector, as in `add_memory`; replaces the embedder's. A service with
   * `CallerVectors` needs it for a new content or author. At least 1 item(s); at most
   * 8192 items.
   */
  vector?: readonly (number | bigint)[];
  /** Change the memory only if this is its `version`. */
  if_version?: number | bigint;
  /** Store custom_metadata as they are, as in `add_events_to_memory`. */
  verbatim?: boolean;
}

export interface Explain {
  /** Any text. */
  query: string;
  /**
   * Maximum number of memories, at least 1; default: the service's. At least 1; at most
   * 1000.
   */
  k?: number;
  /** Minimum cosine similarity in [-1, 1], inclusive. At least -1; at most 1. */
  min_similarity?: number;
  /** Minimum confidence in [0, 1], inclusive. At least 0; at most 1. */
  min_confidence?: number;
  filter?: Filter;
  /**
   * The query's vector by the file's model, shape (dimensions,). At least 1 item(s); at
   * most 8192 items.
   */
  vector?: readonly (number | bigint)[];
  /** Where the user is. */
  time_zone?: Name;
}

export interface Release {
  /**
   * The `updated_at` of the reviewed memory, as `list_memories(state="quarantined")`
   * returned it. Without it, a text that was written after the review is released, too.
   */
  updated_at?: number | bigint;
}

export interface Forget {
  /** Any text. */
  query: string;
  /**
   * Maximum number, 1 to `Limits.max_top_k`; the default is 5, or that. At least 1; at
   * most 1000.
   */
  k?: number;
}

export interface ConfirmForget {
  /** The token that `propose_forget` returned. */
  token: Name;
  /** The memories to delete; default: all of the proposal. At most 256 items. */
  ids?: readonly Name[];
}

export interface Consolidate {
  /**
   * Summarize sessions whose last turn is at least this old: seconds, a timedelta or
   * "30d". None summarizes nothing.
   */
  older_than?: number | bigint | string | null;
  /** Merge facts with the same words, apart from filler words. Default: true. */
  merge?: boolean;
  /**
   * Also merge facts whose vectors have at least this cosine, in (0, 1]; None does not.
   * Facts that differ in a number, in a negation or in being a question are never
   * merged. Try a dry run first: the right cosine depends on the embedder. At least 0;
   * at most 1.
   */
  similarity?: number;
  /**
   * What to summarize: some of "sessions" (turns of old sessions), "summaries" (old
   * summaries, also of sessions) and "facts". At most 256 items; default: ["sessions"].
   */
  fold?: readonly ("sessions" | "summaries" | "facts")[];
  /** Change nothing, and return what would be done. Default: true. */
  dry_run?: boolean;
}

export type NewContent = string | readonly JsonObject[] | {
  /** At most 1024 items. */
  parts: readonly JsonObject[];
  /** At most 512 characters. */
  role?: string;
};

export type Content = string | {
  /** At most 1024 items. */
  parts: JsonObject[];
  /** At most 512 characters. */
  role?: string;
};

/** At least 1 field(s); at most 1 field(s). */
export interface Ingest {
  sessionId?: Name;
  session_id?: Name;
}

export interface NewMemory {
  content?: NewContent;
  /** Another name for content. */
  text?: NewContent;
  /** Another name for content. */
  memory?: NewContent;
  /** Another name for author. */
  role?: string;
  /** Another name for timestamp. */
  created_at?: Time;
  /** Another name for custom_metadata. */
  metadata?: Metadata;
  /** At most 512 characters. */
  author?: string;
  timestamp?: Time;
  /** At most 512 characters. */
  kind?: string;
  /** At most 512 characters. */
  source?: string;
  /** At most 512 characters. */
  trust?: string;
  custom_metadata?: Metadata;
  /** At least 0; at most 1. */
  importance?: number;
  id?: Name;
  event_id?: Name;
  session_id?: Name;
  app_name?: Name;
  user_id?: Name;
  /** Parts of a chat message, such as {"type": "text", "text": ...}. At most 1024 items. */
  parts?: readonly JsonObject[];
  valid_until?: Time;
  supersedes?: Name;
  score?: JsonValue;
  similarity?: JsonValue;
  confidence?: JsonValue;
  explanation?: JsonValue;
  updated_at?: JsonValue;
  scope?: JsonValue;
}

export interface NewEvent {
  content?: null | string | readonly JsonObject[] | {
    /** At most 1024 items. */
    parts: readonly JsonObject[];
    /** At most 512 characters. */
    role?: string;
  };
  /** At most 512 characters. */
  author?: string;
  timestamp?: Time;
  /** At most 512 characters. */
  kind?: string;
  /** At most 512 characters. */
  source?: string;
  /** At most 512 characters. */
  trust?: string;
  custom_metadata?: Metadata;
  /** At least 0; at most 1. */
  importance?: number;
  id?: null | string;
  session_id?: Name;
  app_name?: Name;
  user_id?: Name;
  parts?: null | readonly JsonObject[];
  partial?: JsonValue;
  actions?: JsonValue;
  input_transcription?: JsonValue;
  output_transcription?: JsonValue;
  invocation_id?: JsonValue;
  branch?: JsonValue;
  type?: JsonValue;
  name?: JsonValue;
  tool_calls?: JsonValue;
  tool_call_id?: JsonValue;
  function_call?: JsonValue;
  refusal?: JsonValue;
  annotations?: JsonValue;
  audio?: JsonValue;
  status?: JsonValue;
  call_id?: JsonValue;
  arguments?: JsonValue;
  summary?: JsonValue;
  encrypted_content?: JsonValue;
  reasoning_content?: JsonValue;
  phase?: JsonValue;
  stop_reason?: JsonValue;
  stop_sequence?: JsonValue;
  stop_details?: JsonValue;
  usage?: JsonValue;
  model?: JsonValue;
  container?: JsonValue;
  diagnostics?: JsonValue;
  context_management?: JsonValue;
  input_transformations?: JsonValue;
  tool_call_chunks?: JsonValue;
  chunk_position?: JsonValue;
  additional_kwargs?: JsonValue;
  response_metadata?: JsonValue;
  example?: JsonValue;
  invalid_tool_calls?: JsonValue;
  artifact?: JsonValue;
  turn_complete?: JsonValue;
  turn_complete_reason?: JsonValue;
  interaction_status?: JsonValue;
  finish_reason?: JsonValue;
  error_code?: JsonValue;
  error_message?: JsonValue;
  interrupted?: JsonValue;
  usage_metadata?: JsonValue;
  grounding_metadata?: JsonValue;
  model_version?: JsonValue;
  live_session_resumption_update?: JsonValue;
  live_session_id?: JsonValue;
  go_away?: JsonValue;
  voice_activity?: JsonValue;
  avg_logprobs?: JsonValue;
  logprobs_result?: JsonValue;
  cache_metadata?: JsonValue;
  citation_metadata?: JsonValue;
  interaction_id?: JsonValue;
  environment_id?: JsonValue;
  output?: JsonValue;
  node_info?: JsonValue;
  long_running_tool_ids?: JsonValue;
  isolation_scope?: JsonValue;
  /** Another name for content. */
  text?: NewContent;
  /** Another name for content. */
  memory?: NewContent;
  /** Another name for author. */
  role?: string;
  /** Another name for timestamp. */
  created_at?: Time;
  /** Another name for custom_metadata. */
  metadata?: Metadata;
  event_id?: null | string;
}

export interface Turns {
  /** At most 256 items. */
  events?: readonly NewEvent[];
  /** At most 256 items. */
  messages?: readonly NewEvent[];
}

export interface Memory {
  content: Content;
  id: string;
  author?: string;
  timestamp?: number;
  session_id?: string;
  event_id?: string;
  kind?: string;
  source?: string;
  trust?: string;
  custom_metadata?: JsonObject;
  /** At least 0; at most 1. */
  importance?: number;
  score?: number;
  similarity?: number;
  /** At least 0; at most 1. */
  confidence?: number;
  explanation?: { readonly [key: string]: number };
  created_at?: number;
  updated_at?: number;
  valid_until?: number;
  supersedes?: string;
  scope: string;
}

export interface Found {
  memories: Memory[];
  truncated?: true;
}

export interface Page {
  memories: Memory[];
  next?: string;
}

export interface Apps {
  apps: {
    app_name: string;
    /** At least 0. */
    users: number;
    /** At least 0. */
    memories: number;
    /** At least 0. */
    text_bytes: number;
    /** At least 0. */
    items: number;
    created_at: number;
    updated_at: number;
  }[];
  next?: string;
}

export interface Users {
  users: {
    user_id: string;
    /** At least 0. */
    memories: number;
    /** At least 0. */
    text_bytes: number;
    created_at: number;
    updated_at: number;
    /** At least 0. */
    sessions: number;
    /** At least 0. */
    items: number;
  }[];
  next?: string;
}

export interface Sessions {
  sessions: {
    session_id: string;
    /** At least 0. */
    memories: number;
    /** At least 0. */
    text_bytes: number;
    first_at: number;
    last_at: number;
  }[];
  next?: string;
}

export interface Explanation {
  memory: Memory;
  outcome: "found" | "outranked" | "below_min_confidence" | "below_min_similarity" | "no_candidate" | "filtered" | "expired" | "archived" | "quarantined";
  /** At least 0. */
  rank?: number;
  margin?: number;
  last?: Memory;
  /** At least 0. */
  candidates: number;
  failed: string[];
  why?: string;
  by?: string;
}

export interface Preload {
  /** The user's message. */
  query: string;
  /** At least 1; at most 100. */
  max_entries?: number;
  /** At least 1; at most 1000000. */
  max_tokens?: number;
  /** At least 0; at most 1. */
  min_confidence?: number;
  format?: "past_conversations" | "bullets" | "json" | "secure";
}

export interface Preloaded {
  block: string;
  /** At least 0. */
  tokens: number;
  /** At least 0; at most 1. */
  floor?: number;
  memories: ({
    memory: Memory;
    fate: "shown" | "unsure" | "no_room";
  })[];
}

export interface Figures {
  days: { readonly [key: string]: number };
  kinds: { readonly [key: string]: number };
}

export interface Proposal {
  token: string;
  memories: Memory[];
  expires_at: number;
}

export interface TokenRights {
  id: string;
  app?: string;
  user?: string;
  all_apps?: true;
  read_only?: true;
  review?: true;
  admin?: true;
  expires_at?: number;
  trust?: string;
  source?: string;
  author?: string;
  min_trust?: string;
  label?: string;
}

export interface Revision {
  memory: Memory;
  state: "live" | "archived" | "quarantined" | "overwritten";
  at?: number;
  why?: string;
  by?: string;
  /** At least 0. */
  uses?: number;
  expires_at?: number;
}

export interface History {
  revisions: Revision[];
  truncated?: true;
}

export interface Consolidation {
  /** At least 0. */
  merged: number;
  /** At least 0. */
  folded: number;
  summaries: string[];
  groups: DuplicateGroup[];
  similarity: number | null;
  dry_run: boolean;
  conflicts: Conflict[];
}

export interface Conflict {
  earlier: Memory;
  later: Memory;
  /** At least 0; at most 1. */
  score: number;
  says: "same" | "update";
}

export interface Conflicts {
  conflicts: Conflict[];
}

export interface SimilarMemory {
  memory: Memory;
  /** At least 0; at most 1. */
  score: number;
  says: "same" | "update";
}

export interface DuplicateGroup {
  kept: string;
  merged: string[];
  similarity: number | null;
}

export interface Ids {
  ids: string[];
}

export interface Added {
  ids: (null | string)[];
  left_out?: ({
    /** At least 0. */
    index: number;
    reason: "partial" | "no_text" | "role" | "invalid" | "rewound" | "deleted" | "expired" | "evicted" | "rejected" | "taken";
    detail?: string;
  })[];
  similar?: SimilarMemory[][];
}

export interface Counted {
  /** At least 0. */
  count: number;
}

export interface Touched {
  /** At least 0. */
  touched: number;
}

export interface Marked {
  /** At least 0. */
  marked: number;
}

export interface Deleted {
  /** At least 0. */
  deleted: number;
}

export interface Backup {
  name: string;
  /** At least 0. */
  bytes: number;
}

export interface Health {
  status: "ok";
}

export type Document = JsonObject;

/** The header, or the only field names the kind of the line. */
export type ExportLine = JsonObject;

export interface Error {
  error: {
    code: "author" | "bad_path" | "bad_query" | "bad_request" | "busy" | "closed" | "conflict" | "disconnected" | "embedder" | "forbidden" | "headers_too_large" | "host" | "internal" | "invalid" | "method_not_allowed" | "not_configured" | "not_found" | "not_json" | "not_ready" | "origin" | "read_only" | "rejected" | "reranker" | "review" | "rewriter" | "session_loader" | "source" | "storage" | "storage_full" | "summarizer" | "timeout" | "too_large" | "too_many_requests" | "too_slow" | "trust" | "unauthorized" | "unsupported_media_type" | "write_hook";
    message: string;
    request_id: string;
  };
}
