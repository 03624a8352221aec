"""What the library costs, measured beside what it is compared with."""
