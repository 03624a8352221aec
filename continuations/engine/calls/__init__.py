"""A tool call: examined, admitted, carried out, parked."""
