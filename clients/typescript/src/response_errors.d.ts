// Generated from the server's OpenAPI document by .ci/generate_typescript.

import type { VecallResponseError as Base } from "./errors.js";
import { VecallResponseError } from "./errors.js";

/** The server answered with status 400. */
export declare class BadRequestError extends VecallResponseError {
  readonly status: 400;
  readonly code: "bad_path" | "bad_query" | "bad_request" | "disconnected" | "headers_too_large" | "not_configured" | "not_json";
}

/** The server answered with status 401. */
export declare class UnauthorizedError extends VecallResponseError {
  readonly status: 401;
  readonly code: "unauthorized";
}

/** The server answered with status 403. */
export declare class ForbiddenError extends VecallResponseError {
  readonly status: 403;
  readonly code: "author" | "forbidden" | "host" | "origin" | "read_only" | "review" | "source" | "trust";
}

/** The server answered with status 404. */
export declare class NotFoundError extends VecallResponseError {
  readonly status: 404;
  readonly code: "not_found";
}

/** The server answered with status 405. */
export declare class MethodNotAllowedError extends VecallResponseError {
  readonly status: 405;
  readonly code: "method_not_allowed";
}

/** The server answered with status 408. */
export declare class RequestTimeoutError extends VecallResponseError {
  readonly status: 408;
  readonly code: "too_slow";
}

/** The server answered with status 409. */
export declare class ConflictError extends VecallResponseError {
  readonly status: 409;
  readonly code: "conflict";
}

/** The server answered with status 413. */
export declare class TooLargeError extends VecallResponseError {
  readonly status: 413;
  readonly code: "too_large";
}

/** The server answered with status 415. */
export declare class UnsupportedMediaTypeError extends VecallResponseError {
  readonly status: 415;
  readonly code: "unsupported_media_type";
}

/** The server answered with status 422. */
export declare class InvalidError extends VecallResponseError {
  readonly status: 422;
  readonly code: "invalid" | "rejected";
}

/** The server answered with status 429. */
export declare class RateLimitError extends VecallResponseError {
  readonly status: 429;
  readonly code: "too_many_requests";
}

/** The server answered with status 500. */
export declare class ServerError extends VecallResponseError {
  readonly status: 500;
  readonly code: "internal";
}

/** The server answered with status 503. */
export declare class UnavailableError extends VecallResponseError {
  readonly status: 503;
  readonly code: "busy" | "closed" | "embedder" | "not_ready" | "reranker" | "rewriter" | "session_loader" | "storage" | "summarizer" | "timeout" | "write_hook";
}

/** The server answered with status 507. */
export declare class StorageFullError extends VecallResponseError {
  readonly status: 507;
  readonly code: "storage_full";
}

/** An error response; its `status` decides about its `code`. */
export type AnyResponseError =
  | BadRequestError
  | UnauthorizedError
  | ForbiddenError
  | NotFoundError
  | MethodNotAllowedError
  | RequestTimeoutError
  | ConflictError
  | TooLargeError
  | UnsupportedMediaTypeError
  | InvalidError
  | RateLimitError
  | ServerError
  | UnavailableError
  | StorageFullError;

export declare const errorClasses: ReadonlyMap<number, typeof Base>;
