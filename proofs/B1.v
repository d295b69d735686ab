(* B1.v: FIFO, LRU and the optimum on a cycle over W > K items (claim B1).

   Hard hits, unit sizes, e_t = q_t, serve_then_update, stream, free fill, lambda = p/q >= 0. The policies are
   functions on a list cache that return what Model.run replays; the lower bound is for every schedule that
   Model.run accepts, so also for randomised and clairvoyant ones.                                           *)

From Coq Require Import List ZArith Lia Bool Arith Permutation.
Require Import Model.
Import ListNotations.
Open Scope Z_scope.

Ltac triple := match goal with |- Some (?a, ?b, _) = Some (?d, ?e, _) =>
  replace a with d by lia; replace b with e by lia; reflexivity end.

(* ---- the instance: adversaries' family "cycling" ------------------------------------------------------ *)

Definition requests (W t n : nat) : list nat := map (fun u => (u mod W)%nat) (seq t n).
Definition cycle (W T : nat) : list query := map hard (requests W 0 T).
Definition paper (N K : nat) : setting := Setting (repeat 1 N) (Z.of_nat K) true true true 1 1.

(* ---- the policies, softhit/policies/fifo.py and lru.py ------------------------------------------------- *)

(* The held items: oldest first for FIFO, least recent first for LRU. *)
Definition admit (K x : nat) (cache : list nat) : list nat * change :=
  if (length cache <? K)%nat then (cache ++ [x], Change [] [x])
  else match cache with
       | [] => ([], Change [] [])
       | v :: rest => (rest ++ [x], Change [v] [x])
       end.
Definition fifo (K x : nat) (cache : list nat) : list nat * change :=
  if mem x cache then (cache, Change [] []) else admit K x cache.
Definition lru (K x : nat) (cache : list nat) : list nat * change :=
  if mem x cache then (drop x cache ++ [x], Change [] []) else admit K x cache.

Fixpoint follow (policy : nat -> list nat -> list nat * change) (cache : list nat) (l : list nat)
  : list change :=
  match l with
  | [] => []
  | x :: rest => let (cache', c) := policy x cache in c :: follow policy cache' rest
  end.

(* Hold the first K items for ever. *)
Definition static (K T : nat) : list change :=
  map (fun t => if (t <? K)%nat then Change [] [t] else Change [] []) (seq 0 T).

(* Misses of the static schedule; K + ceil((T - K) / (K + 1)) for W = K + 1 and T >= K. *)
Definition opt (W K T : nat) : nat := (min T K + T / W * (W - K) + (T mod W - K))%nat.

(* ---- arithmetic of the cycle --------------------------------------------------------------------------- *)

Lemma mod_distinct : forall W t u, (u < t)%nat -> (t - u < W)%nat -> (t mod W <> u mod W)%nat.
Proof.
  intros W t u L D E. assert (W <> 0)%nat by lia.
  pose proof (Nat.div_mod t W ltac:(assumption)). pose proof (Nat.div_mod u W ltac:(assumption)).
  assert (t - u = W * (t / W - u / W))%nat by (rewrite Nat.mul_sub_distr_l; lia).
  destruct (t / W - u / W)%nat; nia.
Qed.

Lemma requests_NoDup : forall W n t, (n <= W)%nat -> NoDup (requests W t n).
Proof.
  intros W n. unfold requests. induction n as [|n IH]; intros t H; cbn [seq map]; constructor.
  - intros I. apply in_map_iff in I. destruct I as (u & E & I). apply in_seq in I.
    apply (mod_distinct W u t); lia.
  - apply IH. lia.
Qed.

Lemma requests_length : forall W t n, length (requests W t n) = n.
Proof. intros. unfold requests. now rewrite map_length, seq_length. Qed.

Lemma requests_app : forall W t a b, requests W t (a + b) = requests W t a ++ requests W (t + a) b.
Proof. intros. unfold requests. now rewrite seq_app, map_app. Qed.

Lemma paper_unit : forall N K, unit_sizes (paper N K).
Proof. intros N K. unfold unit_sizes. cbn [paper sizes]. apply Forall_forall. intros z. apply repeat_spec. Qed.

Lemma paper_items : forall N K, n_items (paper N K) = N.
Proof. intros. unfold n_items. cbn [paper sizes]. apply repeat_length. Qed.

Lemma paper_size : forall N K i, (i < N)%nat -> size (paper N K) i = 1.
Proof.
  intros N K i H. pose proof (paper_unit N K) as F. unfold unit_sizes in F. rewrite Forall_forall in F.
  unfold size. apply F, nth_In. fold (n_items (paper N K)). now rewrite paper_items.
Qed.

Lemma paper_valid : forall N K, valid_setting (paper N K).
Proof.
  intros N K. unfold valid_setting. cbn [paper top_k full capacity sizes].
  repeat split; try lia. apply Forall_forall. intros z H. apply repeat_spec in H. lia.
Qed.

Lemma hard_enters : forall N K x, may_enter (paper N K) (hard x) x = true.
Proof. intros. unfold may_enter. cbn. apply Nat.eqb_refl. Qed.

Lemma hard_enters_only : forall N K x y, may_enter (paper N K) (hard x) y = true -> x = y.
Proof. intros N K x y H. unfold may_enter in H. cbn in H. now apply Nat.eqb_eq. Qed.

Lemma miss_hard : forall N K x cache, miss (paper N K) (hard x) cache = if mem x cache then 0 else 1.
Proof.
  intros N K x cache. unfold miss, utility, retrieved. cbn [hard row filter item].
  destruct (mem x cache); reflexivity.
Qed.

(* ---- FIFO and LRU never hit ---------------------------------------------------------------------------- *)

(* The cache before request t: the last K requests. *)
Definition latest (K t : nat) : list nat := requests (K + 1) (t - K) (min t K).

Lemma latest_lacks : forall K t, ~ In (t mod (K + 1))%nat (latest K t).
Proof.
  intros K t I. unfold latest, requests in I. apply in_map_iff in I. destruct I as (u & E & I).
  apply in_seq in I. apply (mod_distinct (K + 1) t u); lia.
Qed.

Lemma latest_range : forall K t, Forall (fun i => (i < n_items (paper (K + 1) K))%nat) (latest K t).
Proof.
  intros K t. rewrite paper_items. apply Forall_forall. intros i I. unfold latest, requests in I.
  apply in_map_iff in I. destruct I as (u & <- & _). apply Nat.mod_upper_bound. lia.
Qed.

Lemma latest_step : forall K t, (1 <= K)%nat -> exists c,
  admit K (t mod (K + 1)) (latest K t) = (latest K (S t), c) /\
  enters c = [(t mod (K + 1))%nat] /\
  update (paper (K + 1) K) (hard (t mod (K + 1))) c (latest K t) = Some (latest K (S t)).
Proof.
  intros K t HK. pose proof (latest_lacks K t) as L. pose proof (latest_range K t) as R.
  assert (X : (t mod (K + 1) < n_items (paper (K + 1) K))%nat).
  { rewrite paper_items. apply Nat.mod_upper_bound. lia. }
  assert (Len : length (latest K t) = min t K) by apply requests_length.
  unfold admit. rewrite Len. destruct (Nat.ltb_spec (min t K) K) as [H|H].
  - assert (E : latest K (S t) = latest K t ++ [(t mod (K + 1))%nat]).
    { unfold latest. replace (S t - K)%nat with 0%nat by lia. replace (t - K)%nat with 0%nat by lia.
      replace (min (S t) K) with (min t K + 1)%nat by lia. rewrite requests_app. cbn [requests seq map].
      replace (0 + min t K)%nat with t by lia. reflexivity. }
    rewrite E. eexists. split; [reflexivity|]. split; [reflexivity|].
    apply update_into_room; try assumption; [apply paper_unit | apply hard_enters |].
    rewrite Len. cbn [paper capacity]. lia.
  - assert (E : exists rest, latest K t = ((t - K) mod (K + 1))%nat :: rest /\
                latest K (S t) = rest ++ [(t mod (K + 1))%nat]).
    { exists (requests (K + 1) (S (t - K)) (K - 1)). unfold latest.
      replace (min t K) with (1 + (K - 1))%nat by lia. split; [reflexivity|].
      replace (S t - K)%nat with (S (t - K)) by lia. replace (min (S t) K) with (K - 1 + 1)%nat by lia.
      rewrite requests_app. cbn [requests seq map]. do 3 f_equal. lia. }
    destruct E as (rest & E1 & E2).
    assert (U : update (paper (K + 1) K) (hard (t mod (K + 1)))
              (Change [((t - K) mod (K + 1))%nat] [(t mod (K + 1))%nat]) (latest K t)
              = Some (drop ((t - K) mod (K + 1)) (latest K t) ++ [(t mod (K + 1))%nat])).
    { apply update_replace; try assumption; [apply paper_unit | apply hard_enters | |].
      - rewrite E1. now left.
      - rewrite Len. cbn [paper capacity]. lia. }
    rewrite E1 in U |- *. rewrite E2. eexists. split; [reflexivity|]. split; [reflexivity|]. rewrite U.
    cbn [drop]. rewrite Nat.eqb_refl. reflexivity.
Qed.

(* Any policy that admits a missing item as FIFO and LRU do. *)
Lemma never_hits : forall policy K, (1 <= K)%nat ->
  (forall x cache, mem x cache = false -> policy x cache = admit K x cache) ->
  forall n t, run (paper (K + 1) K) (latest K t) (map hard (requests (K + 1) t n))
                (follow policy (latest K t) (requests (K + 1) t n))
              = Some (Z.of_nat n, Z.of_nat n, latest K (t + n)).
Proof.
  intros policy K HK A. induction n as [|n IH]; intros t.
  - rewrite Nat.add_0_r. reflexivity.
  - destruct (latest_step K t HK) as (c & P & E & U). pose proof (latest_lacks K t) as L.
    apply mem_false in L. cbn [requests seq map follow]. rewrite (A _ _ L), P. cbn [run]. rewrite U.
    specialize (IH (S t)). unfold requests in IH. rewrite IH. cbn [paper serves_first].
    rewrite (miss_hard (K + 1) K (t mod (K + 1))), L, E. cbn [map Zsum].
    replace (size (paper (K + 1) K) (t mod (K + 1))) with 1.
    + replace (t + S n)%nat with (S t + n)%nat by lia. triple.
    + symmetry. apply paper_size, Nat.mod_upper_bound. lia.
Qed.

(* T misses and T insertions: no request of the cycle over K + 1 items is ever a hit. *)
Theorem fifo_cycle : forall K T, (1 <= K)%nat ->
  run (paper (K + 1) K) [] (cycle (K + 1) T) (follow (fifo K) [] (requests (K + 1) 0 T))
  = Some (Z.of_nat T, Z.of_nat T, latest K T).
Proof.
  intros K T HK. refine (never_hits (fifo K) K HK _ T 0). intros x cache M. unfold fifo. now rewrite M.
Qed.

Theorem lru_cycle : forall K T, (1 <= K)%nat ->
  run (paper (K + 1) K) [] (cycle (K + 1) T) (follow (lru K) [] (requests (K + 1) 0 T))
  = Some (Z.of_nat T, Z.of_nat T, latest K T).
Proof.
  intros K T HK. refine (never_hits (lru K) K HK _ T 0). intros x cache M. unfold lru. now rewrite M.
Qed.

Lemma price_cycle : forall N K p q m T, (K <= T)%nat ->
  price (paper N K) p q m (Z.of_nat T) = q * m + p * Z.of_nat (T - K).
Proof. intros. unfold price, paid. cbn [paper free_fill full capacity]. rewrite Z.max_r, Nat2Z.inj_sub by lia. ring. Qed.

(* Cost = T + lambda (T - K), in units of 1/q. *)
Theorem fifo_cost : forall K T p q, (1 <= K)%nat -> (K <= T)%nat ->
  cost (paper (K + 1) K) p q (cycle (K + 1) T) (follow (fifo K) [] (requests (K + 1) 0 T))
  = Some (q * Z.of_nat T + p * Z.of_nat (T - K)).
Proof. intros. unfold cost. rewrite fifo_cycle by assumption. now rewrite price_cycle. Qed.

Theorem lru_cost : forall K T p q, (1 <= K)%nat -> (K <= T)%nat ->
  cost (paper (K + 1) K) p q (cycle (K + 1) T) (follow (lru K) [] (requests (K + 1) 0 T))
  = Some (q * Z.of_nat T + p * Z.of_nat (T - K)).
Proof. intros. unfold cost. rewrite lru_cycle by assumption. now rewrite price_cycle. Qed.

(* ---- no schedule does better than the static one --------------------------------------------------------- *)

Definition hits_at_start (cache l : list nat) : nat := length (filter (fun x => mem x cache) l).

Lemma hits_mono : forall l c1 c2, (forall x, In x l -> In x c1 -> In x c2) ->
  (hits_at_start c1 l <= hits_at_start c2 l)%nat.
Proof.
  unfold hits_at_start. induction l as [|x l IH]; intros c1 c2 H; cbn [filter]; [lia|].
  assert (I : (length (filter (fun y => mem y c1) l) <= length (filter (fun y => mem y c2) l))%nat).
  { apply IH. intros y Y. apply H. now right. }
  destruct (mem x c1) eqn:E.
  - apply mem_In in E. apply (H x (or_introl eq_refl)), mem_In in E. rewrite E. cbn [length]. lia.
  - destruct (mem x c2); cbn [length]; lia.
Qed.

(* Different requests: one that is not held at the start can enter only after its own miss. *)
Lemma distinct_misses : forall N K l cache sch m z last, NoDup l -> sound (paper N K) cache ->
  run (paper N K) cache (map hard l) sch = Some (m, z, last) ->
  Z.of_nat (length l) - Z.of_nat (hits_at_start cache l) <= m.
Proof.
  intros N K l. induction l as [|x l IH]; intros cache sch m z last D S E.
  - destruct sch; cbn [map run] in E; [|easy]. injection E as <- <- <-. reflexivity.
  - destruct sch as [|h sch]; cbn [map run] in E; [easy|].
    destruct (update (paper N K) (hard x) h cache) as [held|] eqn:U; [|easy].
    destruct (run (paper N K) held (map hard l) sch) as [[[m' z'] c']|] eqn:R; [|easy].
    cbn [paper serves_first] in E. fold (paper N K) in E. injection E as <- <- <-.
    inversion D as [|? ? X D']; subst.
    destruct (update_sound _ _ _ _ _ (paper_valid N K) S U) as [S' I].
    specialize (IH held sch m' z' c' D' S' R). rewrite miss_hard.
    assert (M : (hits_at_start held l <= hits_at_start cache l)%nat).
    { apply hits_mono. intros y Y J. destruct (I y J) as [G|G]; [assumption|].
      apply hard_enters_only in G. subst. contradiction. }
    unfold hits_at_start in *. cbn [filter length]. destruct (mem x cache); cbn [length]; lia.
Qed.

Lemma hits_capacity : forall N K l cache, NoDup l -> sound (paper N K) cache ->
  (hits_at_start cache l <= K)%nat.
Proof.
  intros N K l cache D (_ & F & U). rewrite (used_unit _ _ (paper_unit N K) F) in U. cbn [paper capacity] in U.
  assert (H : (hits_at_start cache l <= length cache)%nat).
  { apply NoDup_incl_length; [now apply NoDup_filter|]. intros x I. apply filter_In in I. now apply mem_In. }
  lia.
Qed.

(* n <= W consecutive requests of a cycle, from any cache: at least n - K misses; from the empty one n. *)
Theorem window_misses : forall N W K t n cache sch m z last, (n <= W)%nat -> sound (paper N K) cache ->
  run (paper N K) cache (map hard (requests W t n)) sch = Some (m, z, last) ->
  Z.of_nat (n - K) <= m /\ (cache = [] -> Z.of_nat n <= m).
Proof.
  intros N W K t n cache sch m z last H S E. pose proof (requests_NoDup W n t H) as D.
  pose proof (distinct_misses N K _ _ _ _ _ _ D S E) as M. rewrite requests_length in M.
  pose proof (hits_capacity N K _ cache D S) as C.
  split.
  - destruct (Nat.le_gt_cases n K) as [L|L]; [|lia]. replace (n - K)%nat with 0%nat by lia.
    pose proof (hits_capacity N K _ cache D S).
    assert (hits_at_start cache (requests W t n) <= n)%nat.
    { rewrite <- (requests_length W t n) at 2. unfold hits_at_start.
      generalize (requests W t n). induction l as [|x l I]; cbn [filter length]; [lia|].
      destruct (mem x cache); cbn [length]; lia. }
    lia.
  - intros ->. enough (hits_at_start [] (requests W t n) = 0%nat) by lia.
    unfold hits_at_start. generalize (requests W t n). induction l as [|x l I]; [reflexivity | exact I].
Qed.

Lemma many_windows : forall N W K a r t cache sch m z last, (r <= W)%nat -> sound (paper N K) cache ->
  run (paper N K) cache (map hard (requests W t (a * W + r))) sch = Some (m, z, last) ->
  Z.of_nat (a * (W - K) + (r - K)) <= m.
Proof.
  intros N W K a r. induction a as [|a IH]; intros t cache sch m z last H So E.
  - now apply (window_misses N W K t r cache sch m z last).
  - replace (S a * W + r)%nat with (W + (a * W + r))%nat in E by lia.
    rewrite requests_app, map_app in E.
    destruct (run_split _ _ _ _ _ _ _ _ E) as (s1 & s2 & m1 & z1 & c1 & m2 & z2 & -> & -> & -> & R1 & R2).
    pose proof (run_sound _ _ _ _ _ _ _ (paper_valid N K) So R1) as S1.
    destruct (window_misses N W K t W cache s1 m1 z1 c1 (le_n W) So R1) as [A _].
    pose proof (IH _ _ _ _ _ _ H S1 R2). lia.
Qed.

(* Every schedule, of any number N of items, K < W: at least opt misses in T steps. *)
Theorem cycle_lower_bound : forall N W K T sch m z last, (K < W)%nat ->
  run (paper N K) [] (cycle W T) sch = Some (m, z, last) -> Z.of_nat (opt W K T) <= m.
Proof.
  intros N W K T sch m z last H E. unfold opt.
  pose proof (Nat.div_mod T W ltac:(lia)) as D. pose proof (Nat.mod_upper_bound T W ltac:(lia)) as B.
  set (a := (T / W)%nat) in *. set (r := (T mod W)%nat) in *. clearbody a r.
  pose proof (sound_nil _ (paper_valid N K)) as So. unfold cycle in E.
  destruct a as [|a].
  - destruct (window_misses N W K 0 T [] sch m z last ltac:(lia) So E) as [_ A]. specialize (A eq_refl). lia.
  - replace T with (W + (a * W + r))%nat in E by lia. rewrite requests_app, map_app in E.
    destruct (run_split _ _ _ _ _ _ _ _ E) as (s1 & s2 & m1 & z1 & c1 & m2 & z2 & -> & -> & -> & R1 & R2).
    destruct (window_misses N W K 0 W [] s1 m1 z1 c1 (le_n W) So R1) as [_ A]. specialize (A eq_refl).
    pose proof (run_sound _ _ _ _ _ _ _ (paper_valid N K) So R1) as S1.
    pose proof (many_windows N W K a r _ _ _ _ _ _ ltac:(lia) S1 R2). nia.
Qed.

Lemma opt_step : forall W K T, (K < W)%nat ->
  opt W K (S T) = (opt W K T + if (T <? K)%nat then 1 else if (T mod W <? K)%nat then 0 else 1)%nat.
Proof.
  intros W K T H. unfold opt.
  pose proof (Nat.div_mod T W ltac:(lia)) as D. pose proof (Nat.mod_upper_bound T W ltac:(lia)) as B.
  set (a := (T / W)%nat) in *. set (r := (T mod W)%nat) in *. clearbody a r.
  destruct (Nat.eq_dec (S r) W) as [E|E].
  - rewrite <- (Nat.div_unique (S T) W (S a) 0) by nia. rewrite <- (Nat.mod_unique (S T) W (S a) 0) by nia.
    destruct (Nat.ltb_spec T K); [nia|]. destruct (Nat.ltb_spec r K); nia.
  - rewrite <- (Nat.div_unique (S T) W a (S r)) by nia. rewrite <- (Nat.mod_unique (S T) W a (S r)) by nia.
    destruct (Nat.ltb_spec T K); [nia|]. destruct (Nat.ltb_spec r K); nia.
Qed.

(* The static schedule attains it, with min T K insertions, none of them paid. *)
Theorem static_cycle : forall W K T, (K < W)%nat ->
  run (paper W K) [] (cycle W T) (static K T)
  = Some (Z.of_nat (opt W K T), Z.of_nat (min T K), seq 0 (min T K)).
Proof.
  intros W K T H. induction T as [|T IH].
  - unfold opt. rewrite Nat.div_0_l, Nat.mod_0_l by lia. reflexivity.
  - unfold cycle, static. rewrite <- (Nat.add_1_r T), requests_app, seq_app, !map_app.
    rewrite (run_app _ _ _ _ _ _ _ _ _ IH). rewrite Nat.add_1_r, opt_step by assumption.
    cbn [requests seq map run]. rewrite !Nat.add_0_l. cbn [paper serves_first]. fold (paper W K).
    rewrite miss_hard.
    destruct (Nat.ltb_spec T K) as [L|L].
    + rewrite (Nat.mod_small T W) by lia.
      rewrite update_into_room; try apply paper_unit.
      * rewrite (proj2 (mem_false _ _)).
        -- cbn [enters map Zsum].
           rewrite paper_size by lia. replace (min (S T) K) with (min T K + 1)%nat by lia.
           rewrite seq_app. cbn [seq]. replace (min T K) with T by lia. triple.
        -- intros I. apply in_seq in I. lia.
      * apply Forall_forall. intros i I. apply in_seq in I. rewrite paper_items. lia.
      * rewrite paper_items. lia.
      * apply hard_enters.
      * intros I. apply in_seq in I. lia.
      * rewrite seq_length. cbn [paper capacity]. lia.
    + unfold update. cbn [leaves leave enters enter map Zsum].
      replace (min (S T) K) with (min T K) by lia.
      destruct (Nat.ltb_spec (T mod W) K) as [G|G].
      * rewrite (proj2 (mem_In _ _)) by (apply in_seq; lia). triple.
      * rewrite (proj2 (mem_false _ _)) by (intros I; apply in_seq in I; lia). triple.
Qed.

(* OPT on every cycle W > K, for every lambda = p/q >= 0: the static schedule costs q opt, no other one less. *)
Theorem cycle_optimum : forall W K T p q, (K < W)%nat -> 0 <= p -> 0 <= q ->
  cost (paper W K) p q (cycle W T) (static K T) = Some (q * Z.of_nat (opt W K T)) /\
  forall sch c, cost (paper W K) p q (cycle W T) sch = Some c -> q * Z.of_nat (opt W K T) <= c.
Proof.
  intros W K T p q H Hp Hq. split.
  - unfold cost. rewrite static_cycle by assumption. unfold price, paid. cbn [paper free_fill full capacity].
    rewrite Z.max_l by lia. f_equal. lia.
  - intros sch c E. unfold cost in E.
    destruct (run (paper W K) [] (cycle W T) sch) as [[[m z] last]|] eqn:R; [|easy]. injection E as <-.
    pose proof (cycle_lower_bound W W K T sch m z last H R). unfold price, paid.
    cbn [paper free_fill full capacity]. pose proof (Z.le_max_l 0 (z - Z.of_nat K)). nia.
Qed.

(* ceil(n / d) = (n + d - 1) / d. *)
Theorem opt_next : forall K T, (K <= T)%nat -> opt (K + 1) K T = (K + (T - K + K) / (K + 1))%nat.
Proof.
  intros K T H. unfold opt. pose proof (Nat.mod_upper_bound T (K + 1) ltac:(lia)).
  replace (T - K + K)%nat with T by lia. replace (K + 1 - K)%nat with 1%nat by lia. lia.
Qed.

(* ---- the ratio -------------------------------------------------------------------------------------------- *)

(* q FIFO = q T + p (T - K) lies between (q + p)(K + 1) OPT - b and (q + p)(K + 1) OPT, b free of T. *)
Theorem ratio_between : forall K T p q, (1 <= K)%nat -> (K <= T)%nat -> 0 <= p -> 0 < q ->
  let alg := q * Z.of_nat T + p * Z.of_nat (T - K) in
  let best := Z.of_nat (opt (K + 1) K T) in
  let factor := (q + p) * Z.of_nat (K + 1) in
  factor * best - (factor + p) * Z.of_nat K <= alg <= factor * best.
Proof.
  intros K T p q HK HT Hp Hq alg best factor. unfold alg, best, factor. rewrite opt_next by assumption.
  replace (T - K + K)%nat with T by lia.
  pose proof (Nat.div_mod T (K + 1) ltac:(lia)) as D. pose proof (Nat.mod_upper_bound T (K + 1) ltac:(lia)) as B.
  set (a := (T / (K + 1))%nat) in *. set (r := (T mod (K + 1))%nat) in *. clearbody a r.
  replace (Z.of_nat (T - K)) with (Z.of_nat T - Z.of_nat K) by lia.
  rewrite D, !Nat2Z.inj_add, !Nat2Z.inj_mul, !Nat2Z.inj_add.
  assert (0 <= Z.of_nat r <= Z.of_nat K) by lia. assert (1 <= Z.of_nat K) by lia.
  generalize dependent (Z.of_nat r). generalize dependent (Z.of_nat K). generalize (Z.of_nat a).
  intros A k Hk R HR. change (Z.of_nat 1) with 1. split; nia.
Qed.

(* No smaller factor u/v, whatever the additive b: for some T FIFO (and LRU) costs more than u/v OPT + b/(q v). *)
Theorem no_smaller_factor : forall K p q u v b, (1 <= K)%nat -> 0 <= p -> 0 < q -> 0 < v ->
  u * q < (q + p) * Z.of_nat (K + 1) * v -> exists T, (K <= T)%nat /\
  u * (q * Z.of_nat (opt (K + 1) K T)) + b < v * (q * Z.of_nat T + p * Z.of_nat (T - K)).
Proof.
  intros K p q u v b HK Hp Hq Hv H.
  set (factor := (q + p) * Z.of_nat (K + 1)) in *.
  (* OPT grows without bound: T = (K + 1) n has OPT = K + n. *)
  set (n := Z.to_nat (Z.abs b + v * (factor + p) * Z.of_nat K + 1)).
  exists ((K + 1) * (n + 1))%nat. split; [nia|].
  pose proof (ratio_between K ((K + 1) * (n + 1)) p q HK ltac:(nia) Hp Hq) as [L _]. fold factor in L.
  assert (O : (n <= opt (K + 1) K ((K + 1) * (n + 1)))%nat).
  { rewrite opt_next by nia. replace ((K + 1) * (n + 1) - K + K)%nat with ((n + 1) * (K + 1))%nat by nia.
    rewrite Nat.div_mul by lia. lia. }
  set (o := opt (K + 1) K ((K + 1) * (n + 1))) in *. clearbody o.
  set (alg := q * Z.of_nat ((K + 1) * (n + 1)) + p * Z.of_nat ((K + 1) * (n + 1) - K)) in *. clearbody alg.
  assert (F : 0 <= factor) by (unfold factor; nia). clearbody factor.
  assert (Z.of_nat n = Z.abs b + v * (factor + p) * Z.of_nat K + 1).
  { unfold n. rewrite Z2Nat.id; [reflexivity|]. assert (0 <= v * (factor + p)) by nia. nia. }
  clearbody n. assert (v * (factor * Z.of_nat o - (factor + p) * Z.of_nat K) <= v * alg) by nia.
  assert (Z.of_nat o <= (factor * v - u * q) * Z.of_nat o) by nia.
  assert (Z.of_nat n <= Z.of_nat o) by lia. nia.
Qed.

Print Assumptions fifo_cycle.
Print Assumptions lru_cycle.
Print Assumptions fifo_cost.
Print Assumptions lru_cost.
Print Assumptions window_misses.
Print Assumptions cycle_lower_bound.
Print Assumptions static_cycle.
Print Assumptions cycle_optimum.
Print Assumptions opt_next.
Print Assumptions ratio_between.
Print Assumptions no_smaller_factor.
