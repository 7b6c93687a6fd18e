// Four int8 products summed in int32, where the device has no instruction for it.
int dot_int8(int a, int b) {
  int sum = 0;
  for (int shift = 0; shift < 32; shift += 8) sum += (a << (24 - shift) >> 24) * (b << (24 - shift) >> 24);
  return sum;
}
