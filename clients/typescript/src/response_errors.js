// Generated from the server's OpenAPI document by .ci/generate_typescript.

import { VecallResponseError } from "./errors.js";

export class BadRequestError extends VecallResponseError {}

export class UnauthorizedError extends VecallResponseError {}

export class ForbiddenError extends VecallResponseError {}

export class NotFoundError extends VecallResponseError {}

export class MethodNotAllowedError extends VecallResponseError {}

export class RequestTimeoutError extends VecallResponseError {}

export class ConflictError extends VecallResponseError {}

export class TooLargeError extends VecallResponseError {}

export class UnsupportedMediaTypeError extends VecallResponseError {}

export class InvalidError extends VecallResponseError {}

export class RateLimitError extends VecallResponseError {}

export class ServerError extends VecallResponseError {}

export class UnavailableError extends VecallResponseError {}

export class StorageFullError extends VecallResponseError {}

export const errorClasses = new Map([
  [400, BadRequestError],
  [401, UnauthorizedError],
  [403, ForbiddenError],
  [404, NotFoundError],
  [405, MethodNotAllowedError],
  [408, RequestTimeoutError],
  [409, ConflictError],
  [413, TooLargeError],
  [415, UnsupportedMediaTypeError],
  [422, InvalidError],
  [429, RateLimitError],
  [500, ServerError],
  [503, UnavailableError],
  [507, StorageFullError],
]);
