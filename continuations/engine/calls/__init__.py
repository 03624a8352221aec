"""A tool call: examined, admitted, parked."""
